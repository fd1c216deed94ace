#include "tests/unit/probes/cuda/kernel_model.h"

namespace gpusnoop::probes {

void KernelModel::step() {
    now_ += 1 + random_() % 20'000'000;
    const std::uint32_t pid = 100 + any(3);
    if (!processes_.contains(pid)) {
        return start(pid);
    }
    const unsigned what = any(1'000);
    if (what < 450) {
        allocate(pid);
    } else if (what < 800) {
        begin_free(pid);
    } else if (what < 900) {
        end_free();
    } else if (what < 905) {
        reset_device(pid);
    } else if (what < 908) {
        destroy_context(pid);
    } else if (what < 910) {
        end(pid);
    } else if (what < 915) {
        give_handle(pid);
    } else if (what < 920) {
        map(pid);
    } else {
        drain();
    }
}

void KernelModel::agree() {
    bench_.aggregator->watch_ends();
    LiveTable read;
    read.since = std::chrono::nanoseconds(now_);
    std::vector<cuda_live_key> keys;
    for (const auto &[key, live] : table_) {
        keys.push_back(key);
    }
    for (const auto &key : keys) {
        if (const auto found = table_.find(key); found != table_.end()) {
            read.entries.emplace_back(*found);
        }
        if (!at_rest_ && any(20) == 0) {
            step();
        }
    }
    read.ended = ended_;
    read.processes = {processes_.begin(), processes_.end()};
    for (unsigned i = at_rest_ ? 0 : any(5); i > 0; i--) {
        step();
    }
    drain();
    bench_.aggregator->reconcile(read);
    forget();
}

void KernelModel::come_to_rest() {
    while (!frees_.empty()) {
        end_free(frees_.begin());
    }
    drain();
    at_rest_ = true;
    do {
        now_ += second_ns;
        agree();
    } while (bench_.aggregator->wants_reconciling());
    at_rest_ = false;
}

void KernelModel::check() const {
    std::map<std::tuple<std::uint32_t, std::int32_t, std::uint16_t>, Amount> truth;
    for (const auto &[key, live] : table_) {
        CHECK(processes_.contains(key.tgid));
        if (key.space != CUDA_LIVE_MAPPINGS && live.imported == 0) {
            CHECK(live_.contains(key));
            Amount &amount = truth[{key.tgid, live.device, live.kind}];
            amount.bytes += live.bytes;
            amount.count++;
        }
    }
    for (const auto &[part, amount] : truth) {
        const auto &[pid, device, kind] = part;
        const std::vector<std::string> labels = {std::to_string(pid), std::to_string(device + 4),
                                                 std::string(memory_kind_names.at(kind))};
        CAPTURE(labels);
        CHECK(bench_.sum("cuda_memory_outstanding_bytes", labels) == amount.bytes);
        CHECK(bench_.sum("cuda_memory_outstanding_allocations", labels) == amount.count);
    }
    for (const auto &process : bench_.aggregator->allocations()) {
        std::uint64_t count = 0;
        for (const auto &[part, amount] : truth) {
            count += std::get<0>(part) == process.pid ? amount.count : 0;
        }
        CHECK(process.amount.count == count);
    }
    const auto total = [&](const char *family) { return bench_.sum(family); };
    if (!has_replaced_) {
        CHECK(total("cuda_memory_allocated_bytes_total") ==
              total("cuda_memory_freed_bytes_total") +
                  total("cuda_memory_unfreed_at_exit_bytes_total") +
                  total("cuda_memory_outstanding_bytes"));
    }
    CHECK(total("cuda_memory_unfreed_at_exit_bytes_total") == unfreed_);
    if (losses_.percent == 0 && !losses_.replaces) {
        CHECK(total("cuda_memory_allocations_total") == allocated_);
        CHECK(total("cuda_memory_frees_total") == freed_);
    }
}

}  // namespace gpusnoop::probes

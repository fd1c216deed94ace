#include "exporter/probes/torch/consumer.h"

#include <bpf/bpf.h>

#include "bpf/lib/processes/process.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

Result<std::unique_ptr<TorchConsumer>> TorchConsumer::start(const TorchPrograms &programs,
                                                            TorchAggregator &aggregator,
                                                            nanoseconds rescan_interval) {
    const auto is_running = [processes = programs.processes_map()](const ProcessKey &process) {
        process_entry entry{};
        return bpf_map_lookup_elem(processes, &process.tgid, &entry) == 0 &&
               entry.since_ns == process.since_ns;
    };
    auto sites = PythonSites::start({programs.python_tables(), is_running});
    if (!sites) {
        return tl::unexpected(sites.error());
    }
    std::unique_ptr<TorchConsumer> consumer(
        new TorchConsumer(programs, aggregator, rescan_interval, std::move(*sites)));
    auto ring = ebpf::Ring::open(programs.events_ring(), [one = consumer.get()](auto bytes) {
        one->undecodable_ += one->aggregator_.on_record(bytes) ? 0 : 1;
    });
    if (!ring) {
        return tl::unexpected(ring.error());
    }
    consumer->ring_ = std::move(*ring);
    return consumer;
}

void TorchConsumer::drain() {
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    const bool has_all = ring_->drain_to(ring_->produced());
    sites_.hand_answers_to(
        [this](symbols::StackReply answer) { aggregator_.on_site_name(std::move(answer)); });
    // Else, a process that had ended by `now` could have records that are not read yet.
    if (has_all && now - tidied_ > std::chrono::seconds(1)) {
        tidied_ = now;
        tidy(now);
    }
    if (now - rescanned_ >= rescan_interval_) {
        rescanned_ = now;
        rescan(now);
    }
}

// All records from before `now` have been read.
void TorchConsumer::tidy(nanoseconds now) {
    if (aggregator_.is_sampling()) {
        const auto account = ebpf::read_account(programs_.account_map());
        const std::uint64_t lost =
            (account ? account->lost[LOST_ring_full] : 0) + aggregator_.forgotten();
        if (std::exchange(lost_, lost) != lost) {
            aggregator_.reconcile(tables_.blocks(), static_cast<std::uint64_t>(now.count()));
        }
    }
    aggregator_.tidy(now);
}

void TorchConsumer::rescan(nanoseconds now) {
    aggregator_.processes().scan(now);
    if (aggregator_.is_sampling()) {
        sites_.rescan(aggregator_.processes().running(), now, aggregator_.python_stacks());
    }
}

void TorchConsumer::ask_for_site(std::uint64_t ticket, const TorchProcess &process,
                                 const Site &site) {
    sites_.ask({.ticket = ticket,
                .tgid = process.key.tgid,
                .addresses = addresses_of(programs_.stacks_map(), TORCH_STACK_FRAMES, site)},
               process.key, site.python);
}

void TorchConsumer::forget_stack(std::int32_t stack) const {
    probes::forget_stack(programs_.stacks_map(), stack);
}

}  // namespace gpusnoop::probes

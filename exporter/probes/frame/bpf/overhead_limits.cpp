#include "exporter/probes/frame/bpf/overhead_limits.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <cstring>

#include "bpf/lib/processes/process.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::probes {

void OverheadShare::has_run(std::chrono::nanoseconds time) {
    run_ns = std::max(run_ns, static_cast<std::uint64_t>(time.count()));
    is_limited = true;
}

std::uint64_t OverheadShare::take(std::uint64_t more_ns) {
    if (is_limited) {
        more_ns = std::min(more_ns, run_ns - std::min(run_ns, shown_ns));
    }
    shown_ns += more_ns;
    return more_ns;
}

OverheadSharePtr OverheadLimits::share_of(std::uint32_t tgid, std::chrono::nanoseconds started) {
    if (started == std::chrono::nanoseconds::zero()) {
        return std::make_shared<OverheadShare>();
    }
    if (shares_.size() >= tidy_at_) {
        std::erase_if(shares_, [](const auto &share) { return share.second.expired(); });
        tidy_at_ = shares_.size() + most_forgotten;
    }
    // One probe may know it from the kernel's record, to the nanosecond, and another from /proc.
    std::weak_ptr<OverheadShare> &known =
        shares_[{tgid, started - started % processes::clock_tick()}];
    auto share = known.lock();
    if (share == nullptr) {
        share = std::make_shared<OverheadShare>();
        known = share;
    }
    return share;
}

Result<> CostTables::add(int table) {
    bpf_map_info info{};
    std::uint32_t bytes = sizeof(info);
    if (bpf_obj_get_info_by_fd(table, &info, &bytes) != 0) {
        return fail_errno("read what a table of processes is");
    }
    if (info.value_size < sizeof(process_entry)) {
        return fail("a table of processes has other values");
    }
    Fd map = duplicate(table);
    if (!map) {
        return fail_errno("duplicate a descriptor");
    }
    const std::lock_guard lock(mutex_);
    tables_.push_back({std::move(map), info.value_size});
    return {};
}

std::chrono::nanoseconds CostTables::cost_of(std::uint32_t tgid) const {
    const std::lock_guard lock(mutex_);
    std::chrono::nanoseconds cost{};
    for (const Table &table : tables_) {
        std::vector<std::byte> value(table.value_bytes);
        if (bpf_map_lookup_elem(table.map.get(), &tgid, value.data()) == 0) {
            process_entry entry{};
            std::memcpy(&entry, value.data(), sizeof(entry));
            cost += std::chrono::nanoseconds(entry.cost_ns);
        }
    }
    return cost;
}

}  // namespace gpusnoop::probes

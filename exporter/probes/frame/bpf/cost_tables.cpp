#include "exporter/probes/frame/bpf/cost_tables.h"

#include <bpf/bpf.h>

#include <cstring>
#include <utility>

#include "bpf/lib/processes/process.h"

namespace gpusnoop::probes {

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

// Tables in which programs of the host group count, by process.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/process_table.h"

namespace gpusnoop::probes {

// Numbers that only grow and are read again and again, as those in tables in which programs of the
// host group count by process.
// How long the ProcessTable of such a probe keeps a process after its end. As long as the process
// is known, its entries are used, and what was counted of them before must be known, too.
inline constexpr std::chrono::seconds counts_grace{30};
static_assert(counts_grace > kept_after_end);

// What `now` is more than `before`; 0 if it is less: of two readings, either can be used first, and
// a thread may end meanwhile.
[[nodiscard]] inline std::uint64_t difference(std::uint64_t now, std::uint64_t before) {
    return now > before ? now - before : 0;
}

// Adds what a number has grown by to `counted`, and returns it.
template <typename Count>
[[nodiscard]] std::uint64_t grown(std::uint64_t now, Count &counted) {
    const std::uint64_t added = difference(now, counted);
    counted += added;
    return added;
}

// Calls use(key, value) for each entry. `Key` has the process as `tgid` and `since_ns`. Entries of
// processes that are not known any more have been used before, and are deleted: the
// ProcessTable has the grace counts_grace. `what` the table has is for the log.
template <typename Key, typename Value, typename Use>
void read_process_counts(const bpf_map *map, FollowedProcesses &followed,
                         const ProcessTableBase &processes, std::string_view what, Use use) {
    std::vector<std::pair<Key, Value>> all;
    const auto read = ebpf::for_each_lookup<Key, Value>(
        bpf_map__fd(map), bpf_map__max_entries(map),
        [&](const Key &key, const Value &value) { all.emplace_back(key, value); });
    if (!read) {
        log::warn("cannot read a table of counts",
                  {{"of", what}, {"reason", read.error().message}});
    }
    followed.drain();  // who the processes are
    for (const auto &[key, value] : all) {
        const ProcessKey process{key.tgid, key.since_ns};
        if (processes.contains(process) || followed.knows(process)) {
            use(key, value);
        } else {
            bpf_map_delete_elem(bpf_map__fd(map), &key);
        }
    }
}

}  // namespace gpusnoop::probes

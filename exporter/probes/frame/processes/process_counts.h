// Tables in which programs of the host group count, by process.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/growing_counts.h"
#include "exporter/probes/frame/processes/process_table.h"

namespace gpusnoop::probes {

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

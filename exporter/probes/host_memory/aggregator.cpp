#include "exporter/probes/host_memory/aggregator.h"

#include <array>
#include <string_view>

#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/process_counts.h"

namespace gpusnoop::probes {

namespace {

// By enum memory_stall.
constexpr std::array<std::string_view, MEMORY_STALLS> stall_names = {"direct", "memcg",
                                                                     "compaction"};

}  // namespace

HostMemoryFamilies make_host_memory_families(series::FamilySet &set) {
    return {
        .seconds = set.counter("host_reclaim_stall_seconds_total",
                               "Time in which threads of followed processes had to free memory "
                               "before their allocation succeeded: because the machine was out "
                               "of memory (direct), their cgroup was (memcg), or free memory was "
                               "fragmented (compaction).",
                               {{"role"}, {"kind", true}}, 1e9),
        .stalls = set.counter("host_reclaim_stalls_total",
                              "Stalls of threads of followed processes that had to free memory "
                              "before their allocation succeeded.",
                              {{"role"}, {"kind", true}}),
    };
}

HostMemoryAggregator::HostMemoryAggregator(const SeriesSettings &settings)
    : CountingAggregator(settings, counts_grace) {}

void HostMemoryAggregator::on_stalls(const memory_key &key, const memory_stalls &now) {
    if (key.kind >= MEMORY_STALLS || key.role >= FOLLOWED_ROLES) {
        return;
    }
    HostMemoryProcess &process = processes_.of({key.tgid, key.since_ns});
    memory_stalls &counted = process.counted[{key.kind, key.role}];
    auto values = process.labels;
    values.emplace_back(followed_role_names.at(key.role));
    values.emplace_back(stall_names.at(key.kind));
    of_.seconds.add(of_.seconds.slot(process.owner, values),
                    grown(now.nanoseconds, counted.nanoseconds));
    of_.stalls.add(of_.stalls.slot(process.owner, values), grown(now.count, counted.count));
}

}  // namespace gpusnoop::probes

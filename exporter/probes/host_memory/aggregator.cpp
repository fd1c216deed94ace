#include "exporter/probes/host_memory/aggregator.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "exporter/probes/frame/followed_processes.h"
#include "exporter/probes/frame/host_probe.h"

namespace gpusnoop::probes {

namespace {

// By enum memory_stall.
constexpr std::array<std::string_view, MEMORY_STALLS> stall_names = {"direct", "memcg",
                                                                     "compaction"};

// What came since, and the later of both: of two entries, either can be read first.
std::uint64_t advance(__u64 &counted, __u64 now) {
    const __u64 grown = now - std::min(now, counted);
    counted += grown;
    return grown;
}

}  // namespace

HostMemoryFamilies make_host_memory_families(series::FamilySet &set) {
    return {
        .seconds = set.counter("host_reclaim_stall_seconds_total",
                               "Time in which threads of followed processes had to free memory "
                               "before they got some: as the machine's (direct) or their cgroup's "
                               "(memcg) was used up, or as none lay together (compaction).",
                               {{"role"}, {"kind", true}}, 1e9),
        .stalls = set.counter("host_reclaim_stalls_total", "The number of these stalls.",
                              {{"role"}, {"kind", true}}),
    };
}

HostMemoryAggregator::HostMemoryAggregator(const SeriesSettings &settings)
    : CountingAggregator(settings, host_grace) {}

void HostMemoryAggregator::on_reading(const Reading &reading) {
    for (const auto &[key, now] : reading) {
        if (key.kind >= MEMORY_STALLS || key.role >= FOLLOWED_ROLES) {
            continue;
        }
        HostMemoryProcess &process = processes_.of({key.tgid, key.since_ns});
        memory_stalls &counted = process.counted[{key.kind, key.role}];
        auto values = process.labels;
        values.emplace_back(followed_role_names.at(key.role));
        values.emplace_back(stall_names.at(key.kind));
        of_.seconds.add(of_.seconds.slot(process.owner, values),
                        advance(counted.nanoseconds, now.nanoseconds));
        of_.stalls.add(of_.stalls.slot(process.owner, values), advance(counted.count, now.count));
    }
}

}  // namespace gpusnoop::probes

#include "exporter/probes/cuda/launches/counted_launches.h"

#include <utility>

#include "exporter/base/log.h"

namespace gpusnoop::probes {

CountedLaunchTable::CountedLaunchTable(const CudaTables &tables) : tables_(tables) {
    (void)tables_.for_each_launch([&](const cuda_launch_key &key, const cuda_launch_count &count) {
        shown_earlier_.emplace(key, count.launches);
    });
}

std::vector<CountedLaunchTable::Entry> CountedLaunchTable::read(const CudaAggregator &aggregator) {
    std::vector<Entry> entries;
    CountedLaunches unowned;
    const auto read =
        tables_.for_each_launch([&](const cuda_launch_key &key, const cuda_launch_count &count) {
            const ProcessKey process{key.tgid, key.since_ns};
            const auto earlier = shown_earlier_.find(key);
            bool is_last = aggregator.has_ended(process) && !tables_.is_running(process);
            if (is_last && !aggregator.knows(process)) {
                const auto before = unowned_.find(key);
                is_last = before != unowned_.end() && before->second == count.launches;
                unowned.emplace(key, count.launches);
            }
            entries.push_back(
                {key,
                 {count.launches - (earlier == shown_earlier_.end() ? 0 : earlier->second),
                  count.first_ns},
                 is_last});
        });
    if (!read) {
        log::warn("cannot read the table of counted launches", {{"reason", read.error().message}});
    }
    unowned_ = std::move(unowned);
    return entries;
}

void CountedLaunchTable::forget_last(const std::vector<Entry> &entries) {
    std::vector<cuda_launch_key> last;
    for (const Entry &entry : entries) {
        if (entry.is_last) {
            shown_earlier_.erase(entry.key);
            last.push_back(entry.key);
        }
    }
    tables_.forget_launches(last);
}

}  // namespace gpusnoop::probes

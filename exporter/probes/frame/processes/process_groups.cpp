#include "exporter/probes/frame/processes/process_groups.h"

#include <algorithm>

namespace gpusnoop::probes {

series::Owner ProcessGroups::join(const series::LabelValues &labels) {
    const auto [group, is_new] = groups_.try_emplace(labels, Group{next_owner_});
    if (is_new) {
        next_owner_++;
    }
    group->second.processes++;
    return group->second.owner;
}

void ProcessGroups::leave(const series::LabelValues &labels, std::chrono::nanoseconds at) {
    Group &group = groups_.at(labels);
    group.processes--;
    group.idle_since = std::max(group.idle_since, at);
}

std::vector<series::Owner> ProcessGroups::expire(std::chrono::nanoseconds now,
                                                 std::chrono::nanoseconds retention) {
    std::vector<series::Owner> expired;
    std::erase_if(groups_, [&](const auto &entry) {
        const Group &group = entry.second;
        if (group.processes > 0 || now - group.idle_since < retention) {
            return false;
        }
        expired.push_back(group.owner);
        return true;
    });
    return expired;
}

}  // namespace gpusnoop::probes

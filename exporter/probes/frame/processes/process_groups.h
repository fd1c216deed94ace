// Processes with the same labels share their series, which stay until the last of them has been
// gone for a while.
#pragma once

#include <chrono>
#include <map>
#include <vector>

#include "exporter/series/family.h"

namespace gpusnoop::probes {

class ProcessGroups {
public:
    // Adds a process with these labels of all families. Returns the owner of its series.
    series::Owner join(const series::LabelValues &labels);

    // Removes a process that had joined.
    void leave(const series::LabelValues &labels, std::chrono::nanoseconds at);

    // Forgets the groups that had no process for `retention`, and returns them: the caller removes
    // their series.
    std::vector<series::Owner> expire(std::chrono::nanoseconds now,
                                      std::chrono::nanoseconds retention);

private:
    struct Group {
        series::Owner owner;
        int processes = 0;
        std::chrono::nanoseconds idle_since{};
    };

    std::map<series::LabelValues, Group> groups_;
    series::Owner next_owner_ = 1;
};

}  // namespace gpusnoop::probes

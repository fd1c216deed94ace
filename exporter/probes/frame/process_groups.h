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
    // A process with these labels, of all families, has come. The owner of its series.
    series::Owner join(const series::LabelValues &labels);

    // One that had joined has gone.
    void leave(const series::LabelValues &labels, std::chrono::nanoseconds at);

    // The groups that nobody has been in for `retention`: they are forgotten, and so should be
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

// Records of the probes on kernel functions, and what comes of them.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/lib/processes/process.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

// Of the directories from the outermost on. Root owns them.
inline process_cgroup cgroup_of(std::initializer_list<std::string_view> path) {
    process_cgroup cgroup{};
    cgroup.is_whole = 1;
    for (auto name = std::rbegin(path); name != std::rend(path); ++name) {
        REQUIRE(cgroup.bytes + name->size() < sizeof(cgroup.names));
        std::memcpy(cgroup.names + cgroup.bytes, name->data(), name->size());
        cgroup.bytes += static_cast<std::uint16_t>(name->size() + 1);
        cgroup.levels++;
    }
    return cgroup;
}

inline process_identity identity_of(std::string_view comm, std::uint64_t started_ns) {
    process_identity identity{};
    identity.start_boottime_ns = started_ns;
    REQUIRE(comm.size() < sizeof(identity.comm));
    std::memcpy(identity.comm, comm.data(), comm.size());
    return identity;
}

// The values of one family: of a histogram, its buckets and its sum.
inline std::map<series::LabelValues, std::vector<std::uint64_t>> values_of(
    const std::vector<series::FamilySnapshot> &families, const std::string &name) {
    std::map<series::LabelValues, std::vector<std::uint64_t>> values;
    bool found = false;
    for (const series::FamilySnapshot &family : families) {
        if (family.description->name != "gpusnoop_" + name) {
            continue;
        }
        found = true;
        for (std::size_t i = 0; i < family.labels.size(); i++) {
            const auto first =
                family.values.begin() + static_cast<std::ptrdiff_t>(i * family.stride);
            values[*family.labels[i]] = {first, first + static_cast<std::ptrdiff_t>(family.stride)};
        }
    }
    REQUIRE(found);
    return values;
}

}  // namespace gpusnoop::probes

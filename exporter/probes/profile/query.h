// The parameters of /api/v1/profile.
#pragma once

#include <chrono>

#include "exporter/base/result.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/profile/probe.h"
#include "exporter/probes/profile/profile.h"

namespace gpusnoop::probes {

inline constexpr std::chrono::milliseconds min_profile_duration{100};

struct ProfileQuery {
    ProfileSettings settings;
    std::chrono::milliseconds duration = std::chrono::seconds(10);
    bool is_of_past = false;  // the last `duration` of the continuous profile
    ProfileFormat format = ProfileFormat::folded;
};

// An error is a sentence for the client.
[[nodiscard]] Result<ProfileQuery> read_profile_query(const QueryParameters &parameters,
                                                      const ProfileConfig &config);

}  // namespace gpusnoop::probes

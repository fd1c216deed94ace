// `gpusnoop_exporter profile`.
#pragma once

#include <chrono>
#include <string>

#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/probes/profile/probe.h"

namespace gpusnoop::probes {

struct ProfileOptions {
    ProfileSettings settings;
    std::chrono::milliseconds duration = std::chrono::seconds(10);
    ProfileFormat format = ProfileFormat::folded;
    std::string output;  // a file; empty: stdout
};

// Runs beside an exporter. Ends after the duration, or when `stop_fd` is readable (it stays the
// caller's); both give the profile so far.
Result<> run_profile(const config::Config &config, const ProfileOptions &options, int stop_fd);

}  // namespace gpusnoop::probes

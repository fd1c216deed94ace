// The contents of the page at /, collected from the parts of the exporter.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/discovery/found_libraries.h"
#include "exporter/metrics/self.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/status/rates.h"

namespace gpusnoop::status {

// Facts about one probe. Texts in here and below may contain anything.
struct ProbeFacts {
    std::string name{};
    probes::ProbeState state = probes::ProbeState::failed;
    std::string detail{};         // why it is not up, or how it is attached
    std::uint64_t functions = 0;  // attached functions
    std::size_t libraries = 0;    // files with attached functions; 0 for a kernel-side probe
    std::map<std::string, std::uint64_t> attach_failures{};  // by reason
    std::uint64_t events = 0;                                // since the start
    std::map<std::string, std::uint64_t> lost{};             // by reason, without zeros
    Rate rate{};
};

// A file that a probe wants, or is attached to.
struct LibraryFacts {
    std::string path{};  // or its name, if the path is not known
    std::string build{};
    std::size_t processes = 0;
    std::map<std::string, std::uint64_t> attached{};   // functions, by probe
    std::map<std::string, std::uint64_t> expensive{};  // of these, by probe, without zeros
    std::map<std::string, std::string> problems{};     // by probe
};

struct Facts {
    std::string node;
    std::string version;
    std::string revision;
    std::chrono::nanoseconds now{};  // CLOCK_REALTIME
    double uptime_seconds = 0;
    std::string config_file;  // empty: the defaults
    metrics::LastReload last_reload;
    std::string telemetry_path = "/metrics";
    bool may_profile = false;  // who reads the page
    double rate_seconds = 0;   // the period of the rates
    std::vector<ProbeFacts> probes;
    // Files with a problem first, then by the number of processes.
    std::vector<LibraryFacts> libraries;
    probes::Overview overview;
    // Of the processes in the overview, in their order; may be shorter.
    std::vector<ProcessPast> past;
    std::string overview_problem;   // why there is no overview; empty if there is one
    bool is_for_strangers = false;  // without what programs do, so without an overview
};

[[nodiscard]] std::vector<ProbeFacts> probe_facts(const std::vector<probes::Health> &probes,
                                                  const CurrentRates &rates);

// `names` are the probes' names, by their attachers. A program without attached functions or
// problems is not shown.
[[nodiscard]] std::vector<LibraryFacts> library_facts(
    const std::vector<discovery::FoundLibrary> &found, const std::vector<probes::Health> &probes,
    const std::map<const discovery::Attacher *, std::string> &names);

}  // namespace gpusnoop::status

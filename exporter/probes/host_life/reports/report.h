// What a GPU process, a container or a step of a Slurm job has used on this node until it ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

struct JobReport {
    enum class Kind : std::uint8_t { process, container, slurm_step };
    struct Gpu {
        std::uint64_t peak_bytes = 0;
        std::uint64_t mean_bytes = 0;  // over the time that the process or the owner lived
        std::uint64_t unfreed_bytes = 0;
    };
    // The numbers that are lower bounds: there may have been more.
    struct AtLeast {
        bool lasted = false;
        bool memory = false;
        bool launches = false;
        bool calls = false;  // the bytes copied and the errors
        bool waited = false;
        bool slow = false;  // slow and hanging calls
        friend bool operator==(const AtLeast &, const AtLeast &) = default;
    };

    Kind kind = Kind::process;
    std::chrono::nanoseconds ended{};  // CLOCK_REALTIME
    std::chrono::nanoseconds lasted{};
    std::uint32_t pid = 0;               // 0: not of a process
    processes::ProcessNames names = {};  // of an owner: of its first process
    std::string pod_uid = {};
    std::string slurm_step_id = {};
    std::uint64_t processes = 1;           // that have used GPUs
    std::map<std::string, Gpu> gpus = {};  // by the label `gpu`
    std::uint64_t launches = 0;
    std::map<std::string, std::uint64_t> copied_bytes = {};  // by the label `direction`
    std::uint64_t errors = 0;
    // Nothing, as in the next two: no probe counts it.
    std::optional<std::chrono::nanoseconds> waited = {};  // the GPU for the host
    std::optional<std::uint64_t> slow_calls = {};
    std::optional<std::uint64_t> hanging_calls = {};
    std::map<std::string, std::uint64_t> causes = {};  // of the ends of its processes
    AtLeast at_least = {};
};

// "process", "container", "slurm_step".
[[nodiscard]] std::string_view to_string(JobReport::Kind kind);

// "train.py (pid 7) lasted 2h 5m; GPU 0: peak 61.2 GiB, mean 40.1 GiB; ...". Lower bounds have a
// "≥" before them.
[[nodiscard]] std::string sentence_of(const JobReport &report);

// docs/api.md describes the members.
[[nodiscard]] nlohmann::ordered_json to_json(const JobReport &report);
// The same on one line, for sinks: {"event":"job_report",...}.
[[nodiscard]] std::string job_report_line(const JobReport &report);

}  // namespace gpusnoop::probes

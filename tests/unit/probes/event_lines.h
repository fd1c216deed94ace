// Traced events for the tests of each probe's trace, and what is read back from their lines.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/lines.h"

namespace event_lines {

// What ends `ended` ns after the monotonic clock's beginning ends 5 us after 22:13:20.123456 UTC.
inline constexpr std::int64_t offset = 1'700'000'000'123'456'000;
inline constexpr std::uint64_t ended = 5'000;

inline const std::string container(64, 'a');

inline gpusnoop::probes::ProcessIdentity a_process() {
    gpusnoop::probes::ProcessIdentity process;
    process.ppid = 99;
    process.comm = "setpci";
    process.container = container;
    process.user = "root";
    return process;
}

inline gpusnoop::probes::ProcessIdentity a_traced_process() {
    gpusnoop::probes::ProcessIdentity process;
    process.ppid = 99;
    process.comm = "train\x1b";
    process.script = "train.py\x1b";
    process.container = container;
    process.slurm_job_id = "4711";
    process.user = "alice";
    return process;
}

// A line of a thread of theirs, of which these are the other keys.
inline nlohmann::json of_caller(const nlohmann::json &others) {
    nlohmann::json line = {{"pid", 100},         {"tid", 101},    {"ppid", 99},
                           {"comm", "setpci"},   {"script", ""},  {"container_id", container},
                           {"slurm_job_id", ""}, {"user", "root"}};
    line.update(others);
    return line;
}
inline nlohmann::json of_traced(const nlohmann::json &others) {
    nlohmann::json line = of_caller({{"comm", "train\uFFFD"},
                                     {"script", "train.py\uFFFD"},
                                     {"slurm_job_id", "4711"},
                                     {"user", "alice"}});
    line.update(others);
    return line;
}

inline nlohmann::json parsed(const gpusnoop::trace::Event &event) {
    const std::string line = gpusnoop::trace::json_line(event);
    CHECK(line.ends_with('\n'));
    CHECK(std::ranges::count(line, '\n') == 1);
    return nlohmann::json::parse(line);
}

// The columns behind the time, with one blank between them.
inline std::string columns(const gpusnoop::trace::Event &event) {
    std::string line = gpusnoop::trace::text_line(event);
    CHECK(line.starts_with("22:13:20.1234"));
    CHECK(line.ends_with('\n'));
    line = line.substr(16, line.size() - 17);
    line = line.substr(line.find_first_not_of(' '));
    line.erase(std::unique(line.begin(), line.end(),
                           [](char one, char next) { return one == ' ' && next == ' '; }),
               line.end());
    return line;
}

}  // namespace event_lines

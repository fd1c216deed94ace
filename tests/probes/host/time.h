// The program `spends` (tests/fakes/host/spends.cpp), and what it has noted of its time.
#pragma once

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"

namespace harness::host_time {

using Cell = std::pair<std::string, std::string>;  // phase, state

// What the program has printed, in seconds.
struct Notes {
    std::map<Cell, double> spent;
    std::map<Cell, double> waits;  // how often; of {"all", "all"}: altogether
    double wall = 0;
    // By the kernel's own account, with what lies between the steps.
    double ran = 0;
    double ready = 0;
    // What the hypervisor has kept from the machine: a step's wait is noted with it.
    double stolen = 0;
};

inline Notes notes_in(const std::string &output) {
    Notes notes;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string word;
        std::string phase;
        std::string state;
        double nanoseconds = 0;
        words >> word;
        if (word == "spent" && words >> phase >> state >> nanoseconds) {
            notes.spent[{phase, state}] = nanoseconds / 1e9;
        } else if (word == "waits" && words >> phase >> state >> nanoseconds) {
            notes.waits[{phase, state}] = nanoseconds;
        } else if (word == "wall" && words >> nanoseconds) {
            notes.wall = nanoseconds / 1e9;
        } else if (word == "ran" && words >> nanoseconds) {
            notes.ran = nanoseconds / 1e9;
        } else if (word == "ready" && words >> nanoseconds) {
            notes.ready = nanoseconds / 1e9;
        } else if (word == "stolen" && words >> nanoseconds) {
            notes.stolen = nanoseconds / 1e9;
        }
    }
    return notes;
}

// An emulated machine takes milliseconds to read its clocks.
inline double slack() {
    return in_guest() ? 0.05 : 0.005;
}

inline bool is_near(double counted, double truth, double stolen = 0) {
    return std::abs(counted - truth) <= 0.02 * truth + slack() + stolen;
}

inline std::string host_time_config(const std::string &mode) {
    return attached_by(mode) + "host: {read_interval: 1s, time: {enabled: true}}\n";
}

// A program that has both libraries mapped and waits for its first signal.
inline Process start(const Exporter &exporter, std::vector<std::string> steps,
                     const Process::Environment &environment = {}) {
    steps.insert(steps.begin(), {standin("spends"), "wait"});
    Process process(std::move(steps), environment);
    process.wait_for_output("waiting 1");
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    return process;
}

}  // namespace harness::host_time

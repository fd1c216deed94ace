// Profiles that tests take, and the programs that they take them of.
#pragma once

#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/process.h"

namespace harness::profiles {

using Json = nlohmann::json;

// A running `gpusnoop_exporter profile`.
class Profile {
public:
    explicit Profile(const std::vector<std::string> &arguments)
        : process_(command(directory_ / "profile", arguments)) {
        process_.wait_for_output("msg=\"tracing\"");
    }
    // Ends it by a signal, and returns what it has written.
    std::string finish() {
        process_.signal(SIGINT);
        INFO(process_.output());
        CHECK(process_.wait() == 0);
        return read_file(directory_ / "profile");
    }
    [[nodiscard]] std::string path() const { return directory_ / "profile"; }

private:
    static std::vector<std::string> command(const std::string &path,
                                            const std::vector<std::string> &arguments) {
        std::vector<std::string> all = {exporter_binary(), "profile", "--duration=10m",
                                        "--output=" + path};
        all.insert(all.end(), arguments.begin(), arguments.end());
        return all;
    }

    TemporaryDirectory directory_;
    Process process_;
};

// A program that waits before it works and after it.
inline Process hold_program(const std::vector<std::string> &command,
                            const Process::Environment &environment = {}) {
    Process process(command, environment);
    process.wait_for_output("waiting");
    return process;
}

// The same of tests/fakes/host/stacks.cpp.
inline Process hold(const std::vector<std::string> &words,
                    const Process::Environment &environment = {}) {
    std::vector<std::string> command = {standin("stacks")};
    command.insert(command.end(), words.begin(), words.end());
    return hold_program(command, environment);
}

// Lets it do its work; what it says of it, by name.
inline std::map<std::string, double> work(const Process &process) {
    process.signal(SIGUSR1);
    eventually("the work to be done", [&] {
        const std::string output = process.output();
        return output.find("waiting") != output.rfind("waiting");
    });
    std::map<std::string, double> said;
    std::istringstream lines(process.output());
    for (std::string line; std::getline(lines, line);) {
        const std::size_t blank = line.find(' ');
        if (blank != std::string::npos) {
            said[line.substr(0, blank)] = std::stod(line.substr(blank));
        }
    }
    return said;
}

inline bool has_frame(const Json &stack, const std::string &function) {
    return std::ranges::any_of(stack.at("stack"),
                               [&](const Json &frame) { return frame.at("function") == function; });
}

inline double samples_in(const Json &profile, const std::string &function) {
    double samples = 0;
    for (const Json &stack : profile.at("stacks")) {
        samples += has_frame(stack, function) ? stack.at("samples").get<double>() : 0;
    }
    return samples;
}

// Of so much CPU time, at 199 a second. A busy machine takes some ticks late, and an emulated one
// misses those of the time in which its own CPUs do not run.
inline double least_samples(double ns) {
    return (in_guest() ? 0.1 : 0.5) * 199 * ns / 1e9;
}

inline std::string pid_option(const Process &process) {
    return "--pid=" + std::to_string(process.pid());
}

}  // namespace harness::profiles

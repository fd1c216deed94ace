// Programs of Python that call CUDA at lines that they say themselves: tests/fakes/hangs/hangs.py
// and tests/fakes/leaks/leaks.py.
#pragma once

#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/page.h"
#include "tests/harness/process.h"
#include "tests/harness/pythons.h"

namespace harness {

inline const std::string cudart_of_python = "12/libcudart.so.12";

// `script` is a path in tests/fakes/. Through a command that runs it as its child, or nothing.
inline std::vector<std::string> python_program(const std::string &interpreter,
                                               const std::string &script, const std::string &way,
                                               std::vector<std::string> command = {}) {
    for (const std::string &word : python_words(interpreter)) {
        command.push_back(word);
    }
    if (!std::filesystem::exists(command.back())) {
        missing(command.back());
    }
    command.insert(command.end(),
                   {GPUSNOOP_SOURCE_DIR "/tests/fakes/" + script, way, standin(cudart_of_python)});
    return command;
}

// The words after the first of the line that begins with it.
inline std::vector<std::string> words_after(const std::string &output, const std::string &first) {
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(first + " ")) {
            return python_words(line.substr(first.size()));
        }
    }
    FAIL("it has not said " + first);
    return {};
}

// The innermost three of what hangs.py says of its places, as a site is called.
inline std::string site_in(const std::string &output) {
    const std::vector<std::string> places = words_after(output, "at");
    std::string site;
    for (std::size_t i = 0; i < places.size() && i < 3; i++) {
        site += (i == 0 ? "" : " < ") + places[i];
    }
    return site;
}

using SiteSizes = std::map<std::string, double>;  // bytes by label

inline SiteSizes sizes_on(const Page &page, pid_t pid) {
    SiteSizes sizes;
    for (const Sample &sample : page.samples("gpusnoop_cuda_memory_site_outstanding_bytes",
                                             {{"pid", std::to_string(pid)}})) {
        sizes[sample.labels.at("site")] += sample.value;
    }
    return sizes;
}

// For an exporter. An interpreter that is started through another program, as one of these is, is
// found at a rescan.
inline const std::string finds_python = "log: {level: debug}\ndiscovery: {rescan_interval: 1s}\n";

// A running tests/fakes/leaks/leaks.py.
class LeakingProgram {
public:
    // `more`: arguments of that program. `library`: the runtime that it loads.
    LeakingProgram(const std::string &interpreter, const std::string &way,
                   const Process::Environment &environment = {},
                   const std::vector<std::string> &more = {},
                   std::filesystem::path library = standin(cudart_of_python))
        : library_(std::move(library)),
          process_(command_of(interpreter, way, more, library_), environment) {
        process_.wait_for_output("loaded");
    }
    // The exporter has seen its first call, and its next ones have Python's functions.
    void call(const Exporter &exporter) const {
        exporter.wait_until_attached_to(library_);
        go_on("called\n");
        exporter.wait_for_log(
            "msg=\"the call sites of a process have Python functions from now on\" pid=" +
            std::to_string(pid()));
    }
    void go_on(const std::string &until) const {
        process_.signal(SIGUSR1);
        process_.wait_for_output(until);
    }
    void allocate() const { go_on("allocated\n"); }
    // What it has said.
    [[nodiscard]] SiteSizes sites() const {
        SiteSizes sizes;
        std::istringstream lines(process_.output());
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string word;
            double size = 0;
            if (words >> word >> size && word == "site") {
                sizes[line.substr(line.find(' ', 5) + 1)] += size;
            }
        }
        REQUIRE_FALSE(sizes.empty());
        return sizes;
    }
    [[nodiscard]] pid_t pid() const { return process_.pid(); }

    [[nodiscard]] const Process &process() const { return process_; }

private:
    static std::vector<std::string> command_of(const std::string &interpreter,
                                               const std::string &way,
                                               const std::vector<std::string> &more,
                                               const std::filesystem::path &library) {
        auto command = python_program(interpreter, "leaks/leaks.py", way);
        command.back() = library.string();
        command.insert(command.end(), more.begin(), more.end());
        return command;
    }

    std::filesystem::path library_;
    Process process_;
};

}  // namespace harness

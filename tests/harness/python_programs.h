// Programs of Python that call CUDA at lines that they say themselves: tests/fakes/hangs/hangs.py
// and tests/fakes/leaks/leaks.py.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
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

}  // namespace harness

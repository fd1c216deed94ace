// The Python interpreters that tests run.
#pragma once

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace harness {

// How to run each: Debian 12's, Debian 13's with its own C library, and what GPUSNOOP_TEST_PYTHONS
// names, separated by colons. Words are separated by spaces; the last is the interpreter.
inline std::vector<std::string> python_commands() {
    const std::string tools = GPUSNOOP_SOURCE_DIR "/.deps/";
    const std::string libraries = tools + "libc-trixie/usr/lib/x86_64-linux-gnu";
    std::vector<std::string> commands = {tools + "python-3.11/usr/bin/python3.11",
                                         libraries + "/ld-linux-x86-64.so.2 --library-path " +
                                             libraries + ":/lib/x86_64-linux-gnu " + tools +
                                             "python-3.13/usr/bin/python3.13"};
    if (const char *const others = std::getenv("GPUSNOOP_TEST_PYTHONS")) {
        std::istringstream paths(others);
        for (std::string path; std::getline(paths, path, ':');) {
            commands.push_back(path);
        }
    }
    return commands;
}

inline std::vector<std::string> python_words(const std::string &command) {
    std::istringstream parts(command);
    std::vector<std::string> words;
    for (std::string part; parts >> part;) {
        words.push_back(part);
    }
    return words;
}

}  // namespace harness

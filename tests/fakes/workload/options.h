// The command line that the demo programs share, and how they wait for a test. C++17, for nvcc.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace demo {

enum class Api { runtime, driver, both };

struct Options {
    unsigned threads = 1;
    double seconds = 0;                            // 0: no limit
    std::optional<std::uint64_t> most_iterations;  // of each thread; 0: makes no call
    std::uint64_t seed = 1;
    std::size_t leak = 0;
    std::uint64_t hoard = 0;
    double rate = 0;  // calls a second by all threads together; 0: as fast as they can
    bool failures = false;
    bool default_kind = false;
    bool memory_kinds = false;
    Api api = Api::runtime;
    bool everything = false;
    bool resets = false;
    bool graphs = false;
    bool known_arguments = false;
    bool hold = false;
    std::string wait_for_file;
    std::string name;
};

// Prints the usage and exits with 2 on a wrong command line.
Options parse_options(int argc, char **argv);

// How often each thread works: as told, else without end where there is a time limit, else 1000.
std::uint64_t iterations(const Options &options);

void wait_for_file(const std::string &path);

// SIGTERM and SIGINT end the work, and end hold(), instead of the process.
void watch_stop_signals();
bool stop_requested();

// This signal ends the work, as its end of time does, and not hold().
void end_work_at(int signal);
bool work_is_over();

// Until a stop signal, or until standard input closes. Only a pipe, a socket or a terminal can
// close: a background job with /dev/null there is held too.
void hold();

// Names the thread, announces the pid, waits for the file: what comes before any CUDA call.
void prepare(const Options &options);

}  // namespace demo

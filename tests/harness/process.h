// Child processes of a test: started, watched, and never left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/machine/directory.h"

namespace harness {

inline constexpr std::chrono::seconds patience{60};  // for steps that should take a moment

// Waits until `done` is true; fails the test, naming `what`, when that takes too long.
void eventually(const std::string &what, const std::function<bool()> &done,
                std::chrono::milliseconds most = patience);

void write_file(const std::filesystem::path &path, const std::string &text);
std::string read_file(const std::filesystem::path &path);

// A running program with its output in a file. Killed when this is destroyed.
class Process {
public:
    using Environment = std::map<std::string, std::string>;

    explicit Process(std::vector<std::string> command, const Environment &environment = {})
        : Process(0, std::move(command), environment) {}
    // With this id, which no process has.
    static Process with_id(pid_t id, std::vector<std::string> command) {
        return Process(id, std::move(command), {});
    }
    ~Process();
    Process(Process &&other) noexcept;
    Process &operator=(Process &&) = delete;
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }
    // Its output so far, on stdout and stderr.
    [[nodiscard]] std::string output() const;
    void wait_for_output(const std::string &text) const;
    void signal(int number) const;
    // Waits for its end: the exit code, or 128 and the signal's number.
    int wait();
    // Of programs that wait for SIGUSR1 between their steps, and then say "waiting N": once it has
    // come to the wait before, lets it go on to its N-th wait.
    void go_on_to(int wait) const;
    // Lets it go on to its end, which must be a good one.
    void finish();

private:
    Process(pid_t id, std::vector<std::string> command, const Environment &environment);

    pid_t pid_ = -1;
    int status_ = -1;  // once it has ended
    std::filesystem::path output_;
};

// Runs a program to its end.
struct Finished {
    int code;
    std::string output;
};
Finished run(std::vector<std::string> command, const Process::Environment &environment = {});

}  // namespace harness

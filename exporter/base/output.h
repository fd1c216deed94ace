// Where lines are written to: a terminal, a file, or a pipe that may break.
#pragma once

#include <string>
#include <string_view>

namespace gpusnoop {

// Collects lines and writes them in pieces that a pipe takes whole. Waits for a slow reader, but
// not when the program is asked to stop. SIGPIPE must be ignored.
class Output {
public:
    // Both stay the caller's. `stop_fd` is readable when the program is asked to stop.
    Output(int fd, int stop_fd) : fd_(fd), stop_fd_(stop_fd) {}

    void add(std::string_view line);
    void flush();

    // Nobody reads any more: nothing more is written.
    [[nodiscard]] bool closed() const { return closed_; }
    // The errno with which writing failed, other than for that reason; 0 if it did not.
    [[nodiscard]] int error() const { return error_; }

    // Waits for the end of either the output or the program, at most so long. True: it is asked to
    // stop.
    bool wait(int milliseconds);

private:
    void write_piece();

    int fd_;
    int stop_fd_;
    bool closed_ = false;
    int error_ = 0;
    std::string waiting_;
};

}  // namespace gpusnoop

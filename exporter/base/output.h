// Writes lines to a terminal, a file, or a pipe that may break.
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

    // The reader has closed its end: nothing more is written.
    [[nodiscard]] bool closed() const { return closed_; }
    // The errno of a failed write, except for a closed reader; 0 if no write failed.
    [[nodiscard]] int error() const { return error_; }

    // Waits until the output is closed or the program is asked to stop, at most `milliseconds`.
    // True: asked to stop.
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

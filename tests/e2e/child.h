// A forked copy of the test that plays a program of its own.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

#include "tests/harness/process.h"

namespace e2e {

// Runs `body` in a forked child, which exits with what it returns. Killed when it goes.
class Child {
public:
    explicit Child(const std::function<int()> &body);
    ~Child();
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }
    void signal(int number) const;
    // Waits for its end: the exit code, or 128 and the signal's number.
    int wait();

private:
    pid_t pid_ = -1;
    int status_ = -1;
};

// For the body of a child.
[[noreturn]] void pause_for_ever();
void wait_for_file(const std::filesystem::path &path);
// A function of a library that the child has opened; ends the child when it is not there.
void *function_of(void *library, const char *name);
template <typename Function>
Function *function_of(void *library, const char *name) {
    return reinterpret_cast<Function *>(function_of(library, name));
}

// Maps the first page of a file as code and keeps it until the end, as a loader would. `comm`: the
// child's name, if it is not the test's.
class MapsAsCode {
public:
    explicit MapsAsCode(const std::filesystem::path &file, const std::string &comm = "");

    [[nodiscard]] pid_t pid() const { return child_.pid(); }

private:
    harness::TemporaryDirectory directory_;
    Child child_;
};

}  // namespace e2e

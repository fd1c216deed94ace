// A copy of the test's own process, for tests that look into another one.
#pragma once

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"

namespace gpusnoop::test {

// Runs `body` in a child, which then waits to be killed. What `body` gives to its argument is in
// told() once the constructor returns; it may also give it and never return.
class ChildProcess {
public:
    using Tell = std::function<void(const std::vector<std::uint64_t> &)>;

    explicit ChildProcess(const std::function<void(const Tell &)> &body) {
        std::array<int, 2> ends{};
        REQUIRE(::pipe(ends.data()) == 0);
        const Fd reading(ends[0]);
        Fd writing(ends[1]);
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            body([&](const std::vector<std::uint64_t> &numbers) {
                const std::uint64_t count = numbers.size();
                (void)!::write(writing.get(), &count, sizeof(count));
                (void)!::write(writing.get(), numbers.data(), count * sizeof(count));
            });
            wait_for_death();
        }
        writing.reset();
        std::uint64_t count = 0;
        REQUIRE(::read(reading.get(), &count, sizeof(count)) == sizeof(count));
        REQUIRE(count < 1000);
        told_.resize(count);
        REQUIRE(::read(reading.get(), told_.data(), count * sizeof(count)) ==
                static_cast<ssize_t>(count * sizeof(count)));
    }
    ~ChildProcess() { end(); }
    ChildProcess(const ChildProcess &) = delete;
    ChildProcess &operator=(const ChildProcess &) = delete;

    [[noreturn]] static void wait_for_death() {
        for (;;) {
            ::pause();
        }
    }

    [[nodiscard]] std::uint32_t tgid() const { return static_cast<std::uint32_t>(pid_); }
    [[nodiscard]] const std::vector<std::uint64_t> &told() const { return told_; }

    // Its number is free when this returns.
    void end() {
        if (!ended_) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
            ended_ = true;
        }
    }

private:
    pid_t pid_ = -1;
    bool ended_ = false;
    std::vector<std::uint64_t> told_;
};

// Of the program that the test is.
inline struct stat own_program() {
    struct stat status{};
    REQUIRE(::stat("/proc/self/exe", &status) == 0);
    return status;
}

}  // namespace gpusnoop::test

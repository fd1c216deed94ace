#include "tests/harness/process.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace harness {

namespace {

std::string make_temporary_file() {
    std::string path = (std::filesystem::temp_directory_path() / "gpusnoop-test-XXXXXX").string();
    const int fd = ::mkstemp(path.data());
    REQUIRE(fd >= 0);
    ::close(fd);
    return path;
}

// 0: any id.
pid_t fork_as(pid_t id) {
    if (id == 0) {
        return ::fork();
    }
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    arguments.set_tid = reinterpret_cast<std::uintptr_t>(&id);
    arguments.set_tid_size = 1;
    return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof(arguments)));
}

}  // namespace

void eventually(const std::string &what, const std::function<bool()> &done,
                std::chrono::milliseconds most) {
    const auto end = std::chrono::steady_clock::now() + most;
    while (!done()) {
        if (std::chrono::steady_clock::now() > end) {
            FAIL("waited in vain: " << what);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

void write_file(const std::filesystem::path &path, const std::string &text) {
    std::ofstream(path, std::ios::binary) << text;
}

std::string read_file(const std::filesystem::path &path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

Process::Process(pid_t id, std::vector<std::string> command, const Environment &environment)
    : output_(make_temporary_file()) {
    std::vector<char *> arguments;
    for (std::string &one : command) {
        arguments.push_back(one.data());
    }
    arguments.push_back(nullptr);
    pid_ = fork_as(id);
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (const auto &[name, value] : environment) {
            ::setenv(name.c_str(), value.c_str(), 1);
        }
        const int output = ::open(output_.c_str(), O_WRONLY | O_APPEND);
        ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
        ::dup2(output, STDOUT_FILENO);
        ::dup2(output, STDERR_FILENO);
        ::close(output);
        ::execvp(arguments.front(), arguments.data());
        ::_exit(127);
    }
}

Process::Process(Process &&other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      status_(other.status_),
      output_(std::move(other.output_)) {}

Process::~Process() {
    if (pid_ > 0 && status_ < 0) {
        ::kill(pid_, SIGKILL);
        int status = 0;
        ::waitpid(pid_, &status, 0);
    }
    std::error_code ignored;
    std::filesystem::remove(output_, ignored);
}

std::string Process::output() const {
    return read_file(output_);
}

void Process::wait_for_output(const std::string &text) const {
    // What has ended says nothing more. What works can take long, where traps are slow.
    siginfo_t ended{};
    const auto has_said = [&] {
        const bool is_over =
            ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            ended.si_pid != 0;
        const std::string all = output();
        if (all.find(text) != std::string::npos) {
            return true;
        }
        if (is_over) {
            FAIL("a process ended, by " << ended.si_status << ", without the output '" << text
                                        << "', but with: " << all);
        }
        return false;
    };
    eventually("output with '" + text + "', but there was: " + output(), has_said, 3 * patience);
}

void Process::signal(int number) const {
    ::kill(pid_, number);
}

void Process::go_on_to(int wait) const {
    wait_for_output("waiting " + std::to_string(wait - 1));
    signal(SIGUSR1);
    wait_for_output("waiting " + std::to_string(wait));
}

void Process::finish() {
    signal(SIGUSR1);
    CHECK(wait() == 0);
}

int Process::wait() {
    if (status_ < 0) {
        int status = 0;
        eventually(
            "the end of a process", [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; },
            2 * patience);
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return status_;
}

Finished run(std::vector<std::string> command, const Process::Environment &environment) {
    Process process(std::move(command), environment);
    const int code = process.wait();
    return {code, process.output()};
}

}  // namespace harness

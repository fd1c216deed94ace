// Runs another program until this is destroyed.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::bench {

// The path of a program as the shell finds it, or in /usr/sbin, where Debian has libbpf-tools.
std::optional<std::filesystem::path> find_program(const std::string &name);

class Child {
public:
    // Discards its output.
    static Result<Child> start(const std::filesystem::path &program,
                               std::vector<std::string> arguments);
    // Kills it and waits until it and its probes are gone.
    ~Child();
    Child(Child &&other) noexcept;
    Child &operator=(Child &&) = delete;
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;

    // Waits until it has programs at this number of functions' ends (perf uprobes and uretprobes).
    // Asks the kernel, as the program's output is buffered and does not show reliably what is
    // attached.
    Result<> wait_until_attached(std::size_t ends) const;
    [[nodiscard]] bool ended() const;

private:
    Child(pid_t pid, Fd errors) : pid_(pid), errors_(std::move(errors)) {}
    [[nodiscard]] std::size_t attached_ends() const;
    // What it has written to stderr.
    [[nodiscard]] std::string complaint() const;

    pid_t pid_;
    Fd errors_;
};

}  // namespace gpusnoop::bench

// Another program, running until this is destroyed.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::bench {

// Where the shell would find a program, or /usr/sbin, where Debian has libbpf-tools.
std::optional<std::filesystem::path> find_program(const std::string &name);

class Child {
public:
    // Its output goes nowhere.
    static Result<Child> start(const std::filesystem::path &program,
                               std::vector<std::string> arguments);
    // Kills it and waits until it is gone, and its probes with it.
    ~Child();
    Child(Child &&other) noexcept;
    Child &operator=(Child &&) = delete;
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;

    // Waits until it has a program at so many ends of functions (perf uprobes and uretprobes). This
    // asks the kernel: output comes when buffers are full, and says little about what is attached.
    Result<> wait_until_attached(std::size_t ends) const;

private:
    Child(pid_t pid, Fd errors) : pid_(pid), errors_(std::move(errors)) {}
    [[nodiscard]] bool ended() const;
    [[nodiscard]] std::size_t attached_ends() const;
    // What it has written to stderr.
    [[nodiscard]] std::string complaint() const;

    pid_t pid_;
    Fd errors_;
};

}  // namespace gpusnoop::bench

// Processes that do nothing but to be there, and the CPUs that threads run on.
#pragma once

#include <sys/types.h>

#include <utility>
#include <vector>

#include "exporter/base/result.h"

namespace gpusnoop::bench {

class Processes {
public:
    // They end with this thread, too. To be started before there is anything that they should not
    // hold open.
    static Result<Processes> start(std::size_t count);
    // Ends them.
    ~Processes();
    Processes(Processes &&other) noexcept : all_(std::exchange(other.all_, {})) {}
    Processes &operator=(Processes &&) = delete;
    Processes(const Processes &) = delete;
    Processes &operator=(const Processes &) = delete;

    [[nodiscard]] std::vector<pid_t> first(std::size_t count) const;

private:
    Processes() = default;

    std::vector<pid_t> all_;
};

// Of those that this thread may run on, the first and the last: one where there is only one.
struct Cpus {
    int writer = 0;
    int consumer = 0;
};
Result<Cpus> choose_cpus();

// This thread, and those that it starts from now on.
Result<> move_to(int cpu);

}  // namespace gpusnoop::bench

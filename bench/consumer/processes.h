// Idle processes, and the CPUs that threads run on.
#pragma once

#include <sys/types.h>

#include <utility>
#include <vector>

#include "exporter/base/result.h"

namespace gpusnoop::bench {

class Processes {
public:
    // They also end with this thread. Start them before the program opens descriptors that they
    // should not inherit.
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

// The first and the last CPU that this thread may run on; they are equal if there is only one.
struct Cpus {
    int writer = 0;
    int consumer = 0;
};
Result<Cpus> choose_cpus();

// Applies to this thread, and to threads that it starts later.
Result<> move_to(int cpu);

}  // namespace gpusnoop::bench

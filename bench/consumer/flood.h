// Writes the CUDA probe's records into rings, at a given rate or as fast as possible.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/object.h"

struct flood_bpf;

namespace gpusnoop::bench {

// Descriptors of maps.
struct Rings {
    int allocations = -1;
    int calls = -1;
    int account = -1;
};

struct Written {
    std::uint64_t events = 0;
    std::uint64_t lost = 0;  // no room in the ring
    std::chrono::nanoseconds took{};

    [[nodiscard]] double per_second() const {
        return static_cast<double>(events + lost) / std::chrono::duration<double>(took).count();
    }
};

class Flood {
public:
    // Writes into the rings of a probe, and into its account.
    static Result<Flood> into(const Rings &rings);
    // Writes into its own rings, of the default sizes.
    static Result<Flood> alone();
    ~Flood();
    Flood(Flood &&) noexcept;
    Flood &operator=(Flood &&) = delete;
    Flood(const Flood &) = delete;
    Flood &operator=(const Flood &) = delete;

    [[nodiscard]] Rings rings() const;

    // Sets the processes that make the next calls; they must be alive. Sends the start of each new
    // process, and the names of its kernels. FLOOD_PROCESSES at most.
    Result<> use(const std::vector<pid_t> &processes);

    // Writes this number of events a second by this thread, evenly except for milliseconds. If the
    // machine delays it, it writes the missing events later.
    Result<Written> write(double per_second, std::chrono::nanoseconds time);

    // All launches ever written.
    [[nodiscard]] std::uint64_t launches() const { return launches_; }

private:
    explicit Flood(ebpf::Skeleton<flood_bpf> programs);
    static Result<Flood> load(const Rings *rings);
    Result<> introduce(std::size_t index, pid_t process);
    Result<> run(int program) const;
    Result<> write_batch(std::uint32_t events, Written &written);

    ebpf::Skeleton<flood_bpf> programs_;
    std::size_t introduced_ = 0;
    std::uint32_t used_ = 0;
    std::uint64_t next_ = 0;  // event
    std::uint64_t launches_ = 0;
};

}  // namespace gpusnoop::bench

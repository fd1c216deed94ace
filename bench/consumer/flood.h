// Writes the CUDA probe's records into rings, as fast as it is told to.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/skeleton.h"

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
    std::uint64_t lost = 0;  // had no room
    std::chrono::nanoseconds took{};

    [[nodiscard]] double per_second() const {
        return static_cast<double>(events + lost) / std::chrono::duration<double>(took).count();
    }
};

class Flood {
public:
    // Into the rings of a probe, and into its account.
    static Result<Flood> into(const Rings &rings);
    // Into rings of its own, of the sizes that are the default.
    static Result<Flood> alone();
    ~Flood();
    Flood(Flood &&) noexcept;
    Flood &operator=(Flood &&) = delete;
    Flood(const Flood &) = delete;
    Flood &operator=(const Flood &) = delete;

    [[nodiscard]] Rings rings() const;

    // The processes that make the calls from now on, which must live: those that are new are
    // introduced, and so are their kernels. FLOOD_PROCESSES at most.
    Result<> use(const std::vector<pid_t> &processes);

    // So many events a second, evenly but for milliseconds, by this thread. What the machine does
    // not let it write in time it writes later.
    Result<Written> write(double per_second, std::chrono::nanoseconds time);

    // All of them that were ever written.
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

// The GPU memory that a process, or several together, held: at most at one moment, and over time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// What was held of one GPU.
struct HeldOnGpu {
    std::string gpu;                        // the label
    std::uint64_t bytes = 0;                // now; of a process that has ended: at its end
    std::uint64_t peak_bytes = 0;           // at most at one moment
    double byte_seconds = 0;                // over time, added up
    std::chrono::nanoseconds held_since{};  // without a break, if any is held now
};

struct HeldMemory {
    // Of a process: its first CUDA call. Of several processes: that of the first one.
    std::chrono::nanoseconds since{};
    bool is_complete = true;           // false: it may have been more
    std::vector<HeldOnGpu> gpus = {};  // by label; without those of which nothing was ever held

    // On average from `since` until then.
    [[nodiscard]] std::uint64_t mean_bytes(const HeldOnGpu &gpu,
                                           std::chrono::nanoseconds until) const;
};

// The bytes that are held of one GPU, as calls change them. The calls come in the order of their
// ends, at which each counts. While they do not overlap, the peak is exact; of calls that overlap,
// the memory that one gave may be gone before another's is there, or not.
class HeldBytes {
public:
    void add(std::uint64_t bytes, std::chrono::nanoseconds at) {
        go_on(at);
        if (bytes_ == 0) {
            held_since_ = last_;
        }
        bytes_ += bytes;
        if (bytes_ > peak_) {
            peak_ = bytes_;
        }
    }
    // No more than is held.
    void subtract(std::uint64_t bytes, std::chrono::nanoseconds at) {
        go_on(at);
        bytes_ -= bytes;
    }
    // The peak was at least as high.
    void raise_peak(std::uint64_t bytes) { peak_ = bytes > peak_ ? bytes : peak_; }
    void add_byte_seconds(double byte_seconds) { byte_seconds_ += byte_seconds; }

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t peak() const { return peak_; }
    [[nodiscard]] std::chrono::nanoseconds held_since() const { return held_since_; }
    [[nodiscard]] double byte_seconds(std::chrono::nanoseconds until) const {
        return until > last_ ? byte_seconds_ + since_last(until) : byte_seconds_;
    }

private:
    [[nodiscard]] double since_last(std::chrono::nanoseconds at) const {
        return static_cast<double>(bytes_) * std::chrono::duration<double>(at - last_).count();
    }
    // What is learned late of an earlier moment counts from the last change on.
    void go_on(std::chrono::nanoseconds at) {
        if (at > last_) {
            byte_seconds_ += since_last(at);
            last_ = at;
        }
    }

    std::uint64_t bytes_ = 0;
    std::uint64_t peak_ = 0;
    double byte_seconds_ = 0;
    std::chrono::nanoseconds last_{};
    std::chrono::nanoseconds held_since_{};
};

// By the label `gpu`. The devices of several processes can be one GPU, and two devices of a process
// too, if it is not known of one which it is. Not copied: users keep references to its GPUs.
class MemoryAccount {
public:
    struct OnGpu {
        std::string gpu;
        HeldBytes held;
        std::size_t devices = 0;  // that have ever been counted here
    };

    explicit MemoryAccount(std::chrono::nanoseconds since) : since_(since) {}
    MemoryAccount(const MemoryAccount &) = delete;
    MemoryAccount &operator=(const MemoryAccount &) = delete;

    // For a device, once. The reference is valid until move() of this device.
    OnGpu &join(const std::string &gpu);
    // The device, of which `bytes` are held, is another GPU than was thought. Returns its place.
    OnGpu &move(OnGpu &from, const std::string &to, std::uint64_t bytes,
                std::chrono::nanoseconds at);

    // More may have been held than is known.
    void note_incomplete() { is_complete_ = false; }

    [[nodiscard]] HeldMemory held(std::chrono::nanoseconds until) const;

private:
    std::chrono::nanoseconds since_;
    bool is_complete_ = true;
    std::map<std::string, OnGpu> gpus_;
};

// What the processes of one container, or of one step of a Slurm job, hold together: the peak of
// their sum, which is less than the sum of their peaks.
class MemoryOwners {
public:
    // A process that began then has allocated for the first time. The accounts in which it counts
    // are valid until it leaves.
    [[nodiscard]] std::vector<MemoryAccount *> join(const std::vector<JobOwner> &owners,
                                                    std::chrono::nanoseconds since);
    void leave(const std::vector<JobOwner> &owners, std::chrono::nanoseconds at);

    // Forgets those whose last process left so long ago.
    void expire(std::chrono::nanoseconds now, std::chrono::nanoseconds retention);

    // Nothing: it has no process that ever allocated, or is forgotten.
    [[nodiscard]] std::optional<HeldMemory> held_by(const JobOwner &owner,
                                                    std::chrono::nanoseconds until) const;

    void for_each(std::chrono::nanoseconds until, auto &&visit) const {
        for (const auto &[owner, known] : owners_) {
            visit(owner, known.account.held(until));
        }
    }

private:
    struct Known {
        explicit Known(std::chrono::nanoseconds since) : account(since) {}

        MemoryAccount account;
        std::size_t processes = 0;
        std::chrono::nanoseconds left{};  // when the last one did
    };

    std::map<JobOwner, Known> owners_;
};

}  // namespace gpusnoop::probes

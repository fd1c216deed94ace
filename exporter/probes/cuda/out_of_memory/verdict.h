// Why a program was refused GPU memory, from what was true at that moment.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/processes/process_names.h"
#include "exporter/symbols/stacks/stack_namer.h"

namespace gpusnoop::probes {

enum class OomVerdict : std::uint8_t {
    own_use,            // the program itself holds most of the memory
    neighbor,           // other processes hold most of it
    fragmentation,      // PyTorch has reserved enough, in pieces that are too small
    too_large,          // the request alone is too large for the GPU
    own_limit,          // enough was free: a limit of the program's own
    not_accounted_for,  // most of it is held by nobody that is seen
    unknown,
};
inline constexpr std::array<std::string_view, 7> oom_verdict_names = {
    "own_use",   "neighbor",          "fragmentation", "too_large",
    "own_limit", "not_accounted_for", "unknown"};

[[nodiscard]] constexpr std::string_view to_string(OomVerdict verdict) {
    return oom_verdict_names.at(static_cast<std::size_t>(verdict));
}

// What a process held on the GPU.
struct MemoryHolder {
    std::uint32_t pid = 0;
    processes::ProcessNames names;
    std::string pod_uid;
    std::array<std::uint64_t, MEMORY_KIND_COUNT> bytes{};  // by enum cuda_memory_kind
    // How much more than `growth_over` before; nothing: it is not known.
    std::optional<std::int64_t> growth;
    std::chrono::nanoseconds growth_over{};
    bool is_complete = true;  // false: it may have held more, from calls that were not seen

    // Managed memory may be larger than the GPU, and pinned memory is the host's.
    [[nodiscard]] std::uint64_t on_gpu() const {
        return bytes[MEMORY_device] + bytes[MEMORY_async] + bytes[MEMORY_vmm];
    }
};

// What a cudaMemGetInfo returned, so long before the refusal; after it: less than 0.
struct MemoryFigures {
    std::uint64_t free = 0;
    std::uint64_t total = 0;
    std::chrono::nanoseconds age{};
    // Memory of the GPU was allocated or freed in between.
    bool is_outdated = false;

    [[nodiscard]] bool is_near() const {
        constexpr std::chrono::seconds near{1};
        return age <= near && age >= -near;
    }
    // Free memory of another moment says nothing.
    [[nodiscard]] bool is_of_that_moment() const { return !is_outdated && is_near(); }
};

// What PyTorch's allocator said when it refused.
struct TorchFigures {
    std::uint64_t allocated = 0;
    std::uint64_t reserved = 0;
};

struct HeldAtSite {
    std::string site;
    std::uint64_t bytes = 0;
};

struct OutOfMemory {
    std::chrono::nanoseconds at{};  // CLOCK_REALTIME
    std::chrono::nanoseconds last{};
    std::uint64_t count = 1;  // refusals, with those that followed soon
    std::uint32_t tid = 0;    // 0: not known
    std::string function;     // that failed; empty: only PyTorch's own allocator refused
    std::string gpu;          // the label
    // Nothing: the call was no allocation.
    std::optional<std::uint64_t> requested;
    // The request may be one of several pieces of a larger one (cuMemCreate).
    bool may_be_piece = false;
    std::string_view kind;  // of the memory; empty: the call was no allocation
    // Where the request came from; empty: not known.
    std::string site;
    std::vector<symbols::Frame> frames;

    MemoryHolder asker;
    std::vector<HeldAtSite> sites;  // of the asker, the largest first
    // Others on the same GPU, the largest first.
    std::vector<MemoryHolder> others;
    std::size_t others_left_out = 0;
    std::uint64_t others_bytes = 0;  // of all of them
    // Of all that are seen, the asker too: it is on the GPU, on another one or in the host's
    // memory.
    std::uint64_t managed_bytes = 0;
    // False: instances of the GPU (MIG) or limits divide it, it is not known which it is, or there
    // were too many refusals, so that nobody else's memory is compared.
    bool compares = true;
    std::optional<MemoryFigures> memory;
    std::optional<TorchFigures> torch;

    OomVerdict verdict = OomVerdict::unknown;
    std::string sentence;

    // Neither held by a process that is seen nor free. Nothing: it is not known.
    [[nodiscard]] std::optional<std::uint64_t> not_accounted_for() const;
};

// The verdict, by the other members but the sentence.
[[nodiscard]] OomVerdict judge(const OutOfMemory &event);
// "train.py asked for 2.00 GiB on GPU 3; ...", by the other members.
[[nodiscard]] std::string oom_sentence(const OutOfMemory &event);

// The script, or the name.
[[nodiscard]] const std::string &program_of(const processes::ProcessNames &names);

}  // namespace gpusnoop::probes

// The layout of a truth file: what the stand-in CUDA libraries did for one process image, counted
// inside the calls themselves, so that a test can compare /metrics to it without any tolerance.
//
// The driver library writes it through a shared file mapping, which outlives a SIGKILL; readers use
// truth_reader.h. Every number is a 64-bit counter, changed with relaxed __atomic builtins.
//
// Only the outermost call of a thread counts, whichever library it is a call to, and only when it
// returns: a call that was left by longjmp, a thread's end or the process's end is seen as entered
// and not in results.

#pragma once

#include "functions.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace truth {

inline constexpr std::uint64_t kMagic = 0x3148545552545053;  // "SPTRUTH1" in memory
inline constexpr std::uint32_t kVersion = 6;

// Every function that is counted. cudaLaunchKernel_ptsz is the same address as cudaLaunchKernel and
// is counted under that name. The __cudaRegister* functions run before main and are not counted.
// The prefix keeps the enumerators apart from the functions themselves.
enum class Function : std::uint32_t {
#define STANDIN_ENUMERATOR(name, ...) k_##name,
    CUDA_RUNTIME_FUNCTIONS(STANDIN_ENUMERATOR) STANDIN_OTHER_RUNTIME_FUNCTIONS(STANDIN_ENUMERATOR)
        CUDA_DRIVER_FUNCTIONS(STANDIN_ENUMERATOR) STANDIN_OTHER_DRIVER_FUNCTIONS(STANDIN_ENUMERATOR)
#undef STANDIN_ENUMERATOR
            count,
};

inline constexpr std::size_t kFunctions = static_cast<std::size_t>(Function::count);

inline constexpr std::array<const char *, kFunctions> kFunctionNames = {
#define STANDIN_NAME(name, ...) #name,
    CUDA_RUNTIME_FUNCTIONS(STANDIN_NAME) STANDIN_OTHER_RUNTIME_FUNCTIONS(STANDIN_NAME)
        CUDA_DRIVER_FUNCTIONS(STANDIN_NAME) STANDIN_OTHER_DRIVER_FUNCTIONS(STANDIN_NAME)
#undef STANDIN_NAME
};

// Second index of FileLayout::memory.
enum class MemoryKind : std::uint32_t { device, async, managed, pinned_host, vmm, count };

// Second index of FileLayout::copies: cudaMemcpyKind without cudaMemcpyDefault, which is resolved.
enum class CopyKind : std::uint32_t { h2h, h2d, d2h, d2d, count };

// Of copies and of memsets; `graph` are those that ran inside graphs.
enum class CopyMode : std::uint32_t { sync, async, graph, count };

// What calls captured, instead of doing it. `graph` is the launch of a graph.
enum class Captured : std::uint32_t { launch, copy, memset, allocate, free, graph, count };

enum class LaunchedBy : std::uint32_t { stream, graph };

inline constexpr std::size_t kDevices = 16;  // the most that STANDIN_DEVICES can be
inline constexpr std::size_t kMemoryKinds = static_cast<std::size_t>(MemoryKind::count);
inline constexpr std::size_t kCopyKinds = static_cast<std::size_t>(CopyKind::count);
inline constexpr std::size_t kCopyModes = static_cast<std::size_t>(CopyMode::count);
inline constexpr std::size_t kCaptured = static_cast<std::size_t>(Captured::count);
inline constexpr std::size_t kLaunchEntries = 4096;
inline constexpr std::size_t kKernelNameBytes = 128;

// Every code that a stand-in function ends with, of cudaError_t or CUresult: where both APIs have a
// code, they mean the same by it.
inline constexpr std::array<int, 32> kErrorCodes = {
    0,    // success
    1,    // invalid value
    2,    // out of memory
    3,    // not initialized
    9,    // cudaErrorInvalidConfiguration
    12,   // cudaErrorInvalidPitchValue
    13,   // cudaErrorInvalidSymbol
    21,   // cudaErrorInvalidMemcpyDirection
    49,   // cudaErrorIncompatibleDriverContext
    52,   // cudaErrorMissingConfiguration
    98,   // cudaErrorInvalidDeviceFunction
    100,  // no device
    101,  // invalid device
    201,  // invalid context
    400,  // invalid handle
    401,  // illegal state
    500,  // not found
    709,  // context is destroyed
    712,  // host memory is registered already
    713,  // host memory is not registered
    801,  // not supported
    900,  // not permitted while a stream captures
    901,  // the capture is invalid
    902,  // two captures would merge
    903,  // not the stream in which the capture began
    904,  // a stream was not joined
    905,  // would depend on work that is not captured
    906,  // would depend on a capture by the legacy stream
    907,  // the event is of a capture
    908,  // not the thread that began the capture
    910,  // a graph cannot be updated
    999,  // unknown
};

// Successful calls only.
struct Memory {
    std::uint64_t allocations;  // calls that gave memory: an empty allocation gives none
    std::uint64_t allocated_bytes;
    std::uint64_t empty_allocations;  // success, no pointer
    std::uint64_t frees;  // of memory that this process image is known to have allocated
    std::uint64_t freed_bytes;
    // Of memory from before a fork, or from a nested call; of the kind that the function is for, on
    // the thread's device.
    std::uint64_t untracked_frees;
    std::uint64_t freed_by_reset;  // allocations that went with their context
    std::uint64_t freed_by_reset_bytes;
    std::uint64_t outstanding_allocations;
    std::uint64_t outstanding_bytes;
};

// Of all kinds of memory but the host's.
struct Held {
    std::uint64_t bytes;
    std::uint64_t peak_bytes;  // the most that this was
};

struct Copies {
    std::uint64_t calls;
    std::uint64_t bytes;
};

enum class EntryState : std::uint32_t { empty, being_written, ready };

// Successful launches of one kernel with one shape on one device, by one of the two ways. Written
// once, then only `count` changes.
struct Launches {
    std::uint32_t state;  // EntryState
    std::array<std::uint32_t, 3> grid;
    std::array<std::uint32_t, 3> block;
    std::uint32_t device;
    std::uint32_t by;  // LaunchedBy
    std::uint32_t padding;
    std::uint64_t count;
    std::array<char, kKernelNameBytes> name;  // mangled, cut to 127 bytes, zero-terminated
};

struct FileLayout {
    std::uint64_t magic;
    std::uint32_t version;
    std::int32_t pid;
    std::uint32_t generation;  // n-th image of this pid in the directory: 0, then 1 after an exec
    std::uint32_t padding;
    std::uint64_t created_ns;   // CLOCK_BOOTTIME at the image's first counted call
    std::array<char, 16> comm;  // of the main thread, at that moment

    // By device: the one on which memory was allocated, and on which the others were called.
    std::array<std::array<Memory, kMemoryKinds>, kDevices> memory;
    std::array<Held, kDevices> held;
    std::array<std::array<std::array<Copies, kCopyModes>, kCopyKinds>, kDevices> copies;
    std::array<std::array<Copies, kCopyModes>, kDevices> memsets;
    std::array<std::uint64_t, kDevices> graph_launches;
    // Calls that were captured instead, by whatever was captured; they are in nothing else here.
    std::array<std::array<std::uint64_t, kCaptured>, kDevices> captured;
    std::array<std::uint64_t, kDevices> synchronizations;  // of a stream, a device or a context
    // Sums over all of `launch_table`, and those it had no room for.
    std::uint64_t launches;  // by calls, into streams
    std::uint64_t launches_by_graphs;
    std::uint64_t launches_unlisted;  // no room in launch_table
    std::uint64_t empty_frees;        // free of NULL: success, nothing freed

    std::uint64_t elapsed_times;    // between two events, that a call gave
    std::uint64_t elapsed_ns;       // their sum
    std::uint64_t elapsed_invalid;  // that no two events can have, and are not in these

    std::uint64_t nested_entered;
    std::uint64_t nested_calls;  // entered and returned
    // Calls that were entered in the parent of a fork and returned in this process too.
    std::uint64_t returns_without_entry;

    std::array<std::uint64_t, kFunctions> entered;  // outermost only, as is `results`
    std::array<std::array<std::uint64_t, kErrorCodes.size()>, kFunctions> results;

    std::array<Launches, kLaunchEntries> launch_table;  // open addressing, in no order
};

static_assert(sizeof(Launches) == 176);
static_assert(sizeof(FileLayout) % 8 == 0);

}  // namespace truth

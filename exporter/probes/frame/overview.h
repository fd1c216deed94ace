// The few numbers that a person looks for first. The aggregating thread copies them, so their size
// is bounded whatever the number of processes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/processes/process_names.h"
#include "exporter/symbols/stacks/stack_namer.h"

namespace gpusnoop::probes {

inline constexpr std::size_t max_overview_processes = 20;
inline constexpr std::size_t max_overview_sites = 15;
inline constexpr std::size_t max_overview_slow_calls = 10;
inline constexpr std::size_t max_overview_in_flight = 20;
inline constexpr std::size_t max_overview_xids = 10;
inline constexpr std::size_t max_overview_out_of_memory = 10;
inline constexpr std::size_t max_overview_ends = 10;    // of those that are bad, and of others
inline constexpr std::size_t max_overview_reports = 3;  // of processes, and of their owners
inline constexpr std::size_t max_overview_gpus = 64;
inline constexpr std::size_t max_overview_holders = 8;
inline constexpr std::size_t max_limit_bytes = 320;

// The CUDA calls of a process since it is known.
struct CallCounts {
    std::uint64_t launches = 0;  // kernels, also by graphs
    std::uint64_t errors = 0;
    std::uint64_t out_of_memory = 0;  // of these
};

// Texts in these are valid UTF-8 and not long.
struct ProcessOverview {
    std::uint32_t pid = 0;
    std::uint64_t since_ns = 0;  // with the pid: which process it is
    processes::ProcessNames names;
    std::string exe;
    std::vector<std::string> gpus;  // as the label `gpu`, without duplicates
    Amount outstanding;
    CallCounts calls = {};
    bool is_complete = true;   // false: it may hold more, from calls that were not seen
    std::string limit = {};    // what limits it, in a sentence; empty: not known
    std::string verdict = {};  // the same in a word
};

// The memory that a process holds on a GPU.
struct HolderOverview {
    std::uint32_t pid = 0;
    processes::ProcessNames names;
    std::uint64_t bytes = 0;
};

// A GPU of the node, or what processes call one.
struct GpuOverview {
    std::string gpu;   // the label
    std::string name;  // the model; empty: not known
    std::uint64_t bytes = 0;
    std::vector<HolderOverview> holders;  // those that hold the most
    std::size_t holder_count = 0;         // of all
};

// The memory of a process from one call site, named as in the label `site`.
struct SiteOverview {
    std::uint32_t pid = 0;
    processes::ProcessNames names;
    std::string site;  // empty: unknown, or not resolved yet
    Amount outstanding;
};

// Of running processes that have used CUDA.
struct MemoryOverview {
    std::vector<ProcessOverview> processes;  // the largest amounts first
    std::size_t process_count = 0;           // of all
    std::vector<SiteOverview> sites;         // the same
    std::size_t site_count = 0;
    std::vector<GpuOverview> gpus;  // in the order of their labels, numbers first
    Amount outstanding;             // of all
    bool is_complete = true;        // of all
};

struct SlowCallOverview {
    std::chrono::nanoseconds ended{};          // CLOCK_REALTIME
    std::optional<std::uint64_t> duration_ns;  // none: only its entry was seen
    std::string function, library;
    std::uint32_t pid = 0;
    processes::ProcessNames names;
    std::optional<std::string> error;
    // The calls that led to it, innermost first; null while they are not known.
    std::shared_ptr<const std::vector<symbols::Frame>> stack;
};

struct SlowCallsOverview {
    std::vector<SlowCallOverview> last;  // the newest first
    std::size_t kept = 0;                // number of calls at /api/v1/slow_calls
};

struct InFlightOverview {
    std::vector<OpenCall> oldest;         // the oldest first
    std::size_t count = 0;                // of all
    std::uint64_t now_ns = 0;             // of their clock
    std::chrono::milliseconds min_age{};  // of all
    // The functions that the threads of `oldest` are in, by thread id, innermost first. Reads other
    // processes, which takes up to seconds: for the thread that makes the page. Null: unknown.
    std::function<std::map<std::uint32_t, std::vector<symbols::Frame>>()> stacks = nullptr;
};

// A report of the NVIDIA driver on a GPU (Xid) or an NVSwitch (SXid).
struct XidOverview {
    std::chrono::nanoseconds at{};  // CLOCK_REALTIME
    bool is_switch = false;
    std::uint32_t code = 0;
    std::string kind;  // as the label `class`, or `severity` of a switch
    std::string device;
    std::string gpu;        // as the label `gpu`; empty for a switch
    std::uint32_t pid = 0;  // 0: the report names no process
    std::optional<processes::ProcessNames> process;
    std::string text;
};

struct XidsOverview {
    std::vector<XidOverview> last;  // the newest first
    std::uint64_t count = 0;        // of all since the start
};

// A program was refused GPU memory.
struct OutOfMemoryEventOverview {
    std::chrono::nanoseconds at{};  // CLOCK_REALTIME
    std::uint64_t count = 1;        // refusals that followed each other
    std::uint32_t pid = 0;
    processes::ProcessNames names;
    std::string gpu;                         // as the label `gpu`
    std::optional<std::uint64_t> requested;  // nothing: the call was no allocation
    std::string verdict;                     // as the label `verdict`
    std::string sentence;                    // who holds the memory
};

struct OutOfMemoryOverview {
    std::vector<OutOfMemoryEventOverview> last;  // the newest first
    std::uint64_t count = 0;                     // of all since the start
};

// The end of a GPU process, or of a process that one started.
struct EndOverview {
    std::chrono::nanoseconds at{};  // CLOCK_REALTIME
    std::uint32_t pid = 0;
    processes::ProcessNames names;
    std::string cause;                        // as the label `cause`
    bool is_bad = false;                      // not one that was asked for
    std::optional<std::uint64_t> held_bytes;  // on GPUs; none: not known
};

struct EndsOverview {
    std::vector<EndOverview> last;  // the newest first
    std::size_t count = 0;          // of these among those at /api/v1/exits
};

// What a process, a container or a Slurm step used until it ended.
struct JobReportOverview {
    std::chrono::nanoseconds ended{};  // CLOCK_REALTIME
    std::string sentence;
};

struct JobReportsOverview {
    std::vector<JobReportOverview> last;  // the newest first
    std::size_t count = 0;                // of those at /api/v1/exits
};

struct Overview {
    std::optional<MemoryOverview> memory;              // none: no probe knows
    std::optional<SlowCallsOverview> slow_calls;       // the same
    std::optional<InFlightOverview> in_flight;         // the same
    std::optional<XidsOverview> xids;                  // the same
    std::optional<OutOfMemoryOverview> out_of_memory;  // the same
    std::optional<EndsOverview> ends;                  // the same
    std::optional<JobReportsOverview> job_reports;     // the same
};

}  // namespace gpusnoop::probes

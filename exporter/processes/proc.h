// Reads the state of a process from /proc. The process may end, and its id be reused, between two
// calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/processes/cgroup_owner.h"

namespace gpusnoop::processes {

// When the process started, since boot, in whole clock ticks (10 ms). The failure's code is ENOENT
// or ESRCH if the process does not exist.
Result<std::chrono::nanoseconds> start_time(std::uint32_t tgid);

// What the kernel rounds such a time down to.
std::chrono::nanoseconds clock_tick();

// Where the stack of its program begins, at random for each exec; 0 if that is not shown.
std::int64_t stack_start_of(std::uint32_t tgid);

// The process that started or adopted it.
std::optional<std::uint32_t> parent_of(std::uint32_t tgid);

// Its real user id, as this process's user namespace counts.
std::optional<std::uint32_t> user_of(std::uint32_t tgid);

// Its id in the innermost namespace of ids that it is in.
std::optional<std::uint32_t> innermost_id_of(std::uint32_t tgid);

// The name of its first thread: untrusted bytes; empty if it cannot be read.
std::string name_of(std::uint32_t tgid);

// The processes that run now. Empty if /proc cannot be read.
std::vector<std::uint32_t> all_processes();

// Its first thread is not blocked: it runs, or waits for a CPU.
bool is_runnable(std::uint32_t tgid);

// For how long its first thread has run or waited for a CPU so far; 0 if it cannot be read.
std::chrono::nanoseconds time_unblocked_of(std::uint32_t tgid);

enum class Presence {
    running,
    gone,    // it has ended; another process may have its id
    unsure,  // /proc could not be read
};

// The state of the process with that start time.
Presence presence(std::uint32_t tgid, std::chrono::nanoseconds started);

// Path of its executable, in its own mount namespace: untrusted bytes; empty if it cannot be read.
std::string executable_path(std::uint32_t tgid);

// From its cgroups; empty on the host, or if they cannot be read. Where the owner of a cgroup's
// directory cannot be seen, because the host's cgroups are not mounted here, `unseen_is_roots`
// decides.
CgroupOwner cgroup_owner_of(std::uint32_t tgid, bool unseen_is_roots);

// The content of its file of cgroups; empty if it cannot be read.
std::string cgroups_of(std::uint32_t tgid);

// No process has this id any more.
bool has_ended(std::uint32_t tgid);

// What all of its threads have run so far, also those that have ended; nothing: it is gone.
std::optional<std::chrono::nanoseconds> cpu_time_of(std::uint32_t tgid);

}  // namespace gpusnoop::processes

// Which processes make the kernel wait when a uprobe is set in a file, or removed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// A process that keeps the lock of its mappings. The kernel takes this lock of each process that
// maps a file, to set a breakpoint in the file or to remove it. It waits for as long as a process
// keeps the lock, for instance while it unmaps a changed page of a file on a file system that does
// not answer; and no process of the machine can fork meanwhile.
struct LockingProcess {
    std::uint32_t tgid = 0;  // 0: not known
    // The file has too many mappings to see whether one of them is locked. The process has most of
    // them.
    bool is_crowd = false;
};

// Loads the program that asks the kernel: else the first question does, which takes milliseconds.
void prepare_mapper_locks();

// How often a lock must be found held until it counts as kept. They are usually held for
// microseconds; a process that maps files all the time holds its lock often, but each time newly.
inline constexpr int looks_at_locks = 20;  // half a millisecond apart

// A process that maps the file and whose lock was not seen free, in so many looks; nothing if there
// is none. The file, or a probe in it, must be kept open by the caller. Nothing, too, if the kernel
// cannot be asked, or the file's address in the kernel is not known. For any thread.
[[nodiscard]] std::optional<LockingProcess> process_that_locks(const FileId &file,
                                                               int looks = looks_at_locks);

// After such a question about this file, which was the last one: the process that has more than
// half of its mappings. 0: not known. If none has so many, it is any of them.
[[nodiscard]] std::uint32_t main_mapper(const FileId &file);

// The same question, answered by a failure with the code EAGAIN.
[[nodiscard]] Result<> check_mapper_locks(const FileId &file, int looks = looks_at_locks);

// A lock that is held, as in bpf/processes/mappings.h.
struct HeldLock {
    std::uint64_t memory = 0;
    std::uint64_t holder = 0;
    std::uint32_t tgid = 0;
    bool operator==(const HeldLock &) const = default;
};

// The first of the locks that are held in each look. `look` is called as often as that may change
// the answer, `most` times at most, and fails where the kernel cannot be asked.
[[nodiscard]] std::optional<HeldLock> held_throughout(
    const std::function<Result<std::vector<HeldLock>>()> &look, int most);

}  // namespace gpusnoop::ebpf

// Opens a file that another process has mapped.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/kernel/mapping_list.h"

namespace gpusnoop::discovery {

// Opens exactly the mapped file, or fails: code ENOENT or ESRCH when the process or the mapping is
// gone. The process controls its own paths, so they are resolved below its root, without magic
// links, and what was opened is compared with what is mapped.
Result<Fd> open_mapped(const kernel::Mapping &mapping, kernel::MappingList &mappings);

// What a file's contents cannot change without.
struct FileState {
    std::int64_t size = 0;                // bytes
    std::chrono::nanoseconds modified{};  // since 1970
    bool operator==(const FileState &) const = default;
};

// Nothing where it cannot be had.
[[nodiscard]] std::optional<FileState> state_of(const Fd &file);
// Of a file that is not open, which needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN. Does not wait
// for the holder of a lease.
[[nodiscard]] std::optional<FileState> state_of_mapped(const kernel::Mapping &mapping);

// The path of the mapped file as /proc/PID/maps shows it: from our own root where the file can be
// reached from there, else from the root of the process's mount namespace.
Result<std::string> mapped_path(const kernel::Mapping &mapping);

}  // namespace gpusnoop::discovery

// The probes on kernel launches, in links of their own: so they can be taken away from one process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
#include "exporter/base/rate_limit.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/mapping_list.h"
#include "exporter/ebpf/uprobe.h"
#include "exporter/probes/cuda/programs.h"
#include "exporter/probes/frame/attached_libraries.h"

namespace gpusnoop::probes {

// Whether a process's launches are seen.
enum class Sight { always, in_turn, out_of_turn };

// A probe on a file is in every process that maps it. While a process has turns, each process has a
// link of its own to the files that this one maps: so nothing changes for the others.
//
// When links are exchanged, both are attached for a moment. A launch in this moment is counted
// once: the second program finds that the call at this place is over, and begins it again, and at
// its end the first one closes it.
class LaunchProbes {
public:
    explicit LaunchProbes(const CudaPrograms &programs) : programs_(programs) {}

    // For the discovery thread. The places are those that take_launches() took.
    tl::expected<AttachedLibraries::Functions, CudaPrograms::Failure> attach(
        const discovery::Library &library, CudaPrograms::Places places);
    void used(const ebpf::Mapping &mapping);
    // The probes that are to be detached.
    [[nodiscard]] std::vector<ebpf::UprobeSet> remove(const FileId &id);
    [[nodiscard]] std::vector<FileId> files();
    // Whether probes of the file are being detached.
    [[nodiscard]] bool is_closing(const FileId &id);

    // For the governor's thread. Returns when nothing is attached any more that should not be: the
    // moment before the first probe was detached, if none of the process is left; nothing if its
    // launches are seen.
    std::optional<std::chrono::nanoseconds> set(std::uint32_t tgid, Sight sight);

private:
    // Of a process id, the program that it is.
    struct User {
        std::chrono::nanoseconds started{};
        std::uint64_t execs = 0;
        bool operator==(const User &) const = default;
    };
    using Users = std::map<std::uint32_t, User>;
    struct File {
        Fd fd;  // to attach again
        CudaPrograms::Places places;
        bool is_inner = false;                         // the runtime calls it
        ebpf::UprobeSet shared;                        // in all processes
        std::map<std::uint32_t, ebpf::UprobeSet> own;  // in one process each
    };
    // Probes that are to be closed, without the lock, and their files.
    using Surplus = std::vector<std::pair<FileId, ebpf::UprobeSet>>;

    void warn(std::string_view what, const Error &error);
    [[nodiscard]] bool is_in_turns(const Users &users) const;
    [[nodiscard]] bool is_seen(std::uint32_t tgid) const;
    [[nodiscard]] bool is_attached(std::uint32_t tgid) const;
    void settle(const FileId &id, File &file, Surplus &surplus);
    Result<> attach_own(File &file, Users &users);
    Result<> attach_shared(File &file);
    void give_up(const FileId &id, ebpf::UprobeSet probes, Surplus &surplus);
    void close(Surplus surplus);

    const CudaPrograms &programs_;
    std::mutex mutex_;
    std::map<FileId, File> files_;
    std::map<FileId, Users> users_;  // of all wanted files, attached to or not
    std::map<std::uint32_t, Sight> in_turns_;
    std::map<FileId, std::size_t> closing_;
    RateLimit warnings_{1};
};

// Moves the launches of kernels out of `places`.
[[nodiscard]] CudaPrograms::Places take_launches(CudaPrograms::Places &places);

}  // namespace gpusnoop::probes

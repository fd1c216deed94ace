// The probes on kernel launches, in links of their own: so they can be exchanged while programs
// run, and be taken away from one process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
#include "exporter/base/rate_limit.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/probes/cuda/attach/programs.h"
#include "exporter/probes/frame/libraries/attached_libraries.h"

namespace gpusnoop::probes {

// Launches are seen in one of three ways:
//  - to their end: the runtime's and the driver's functions have probes at both ends;
//  - counted: the runtime's functions have no probe, and the driver's have one at the entry, the
//    same for all processes. A runtime is counted while seeing the ends of its launches costs one
//    of its processes too much; the driver, while any runtime is;
//  - in turns, for a process that pays too much even for that: then each process has a link of its
//    own to the driver, which one in a pause has not. With more processes than `max_own`, all
//    pause: the kernel calls the program of each link for each launch of any process.
//
// When links are exchanged, both are attached for a moment. The programs see to a launch in this
// moment once (bpf/cuda/counted_launches/nested.bpf.h).
class LaunchProbes {
public:
    static constexpr std::size_t max_own = 32;

    explicit LaunchProbes(CudaPrograms &programs) : programs_(programs) {}

    // For the discovery thread. The places are those that take_launches() took.
    tl::expected<AttachedLibraries::Functions, CudaPrograms::Failure> attach(
        const discovery::Library &library, CudaPrograms::Places places);
    void used(const ebpf::Mapping &mapping);
    // The probes that are to be detached.
    [[nodiscard]] std::vector<ebpf::UprobeSet> remove(const FileId &id);
    [[nodiscard]] std::vector<FileId> files();
    // Whether probes of the file are being detached.
    [[nodiscard]] bool is_closing(const FileId &id);
    // For any thread. Whether a launch of the process that began then, by the driver's or a
    // runtime's function, may have ended unseen.
    [[nodiscard]] bool may_have_ended(std::uint32_t tgid, bool is_driver,
                                      std::chrono::nanoseconds began) const;

    // The rest is for the governor's thread.
    //
    // What is to be so from now on. The launches of these processes are counted: those of the
    // runtimes that they use, whoever uses them.
    struct Wanted {
        std::set<std::uint32_t> counted;
        // These runtimes' launches are not each one of the driver's.
        std::set<std::uint32_t> odd;
        bool driver_is_odd = false;
        // While these launch, the handles of their kernels are learned: for a moment, the runtimes
        // that they use are seen to the end.
        std::set<std::uint32_t> learned;
        std::set<std::uint32_t> in_turns;
        std::set<std::uint32_t> paused;  // of those in turns
        bool operator==(const Wanted &) const = default;
    };
    // Returns when nothing is attached any more that should not be. False: something could not be
    // attached.
    bool set(const Wanted &wanted);
    // Whether none of the files that the process uses has probes at both ends of launches.
    [[nodiscard]] bool has_no_ends(std::uint32_t tgid);
    // Whether the process's launches are seen or counted; a process that maps none of the files is.
    [[nodiscard]] bool is_seen(std::uint32_t tgid);

private:
    // Of a process id, the program that it is.
    struct User {
        std::chrono::nanoseconds started{};
        std::uint64_t execs = 0;
        // The file's code; nothing of an executable, which has other code, too.
        std::uint64_t code_start = 0;
        std::uint64_t code_end = 0;
        bool operator==(const User &) const = default;
    };
    using Users = std::map<std::uint32_t, User>;
    struct File {
        Fd fd;  // to attach again
        CudaPrograms::Places places;
        bool is_driver = false;
        ebpf::UprobeSet ends;                          // in all processes
        ebpf::UprobeSet counting;                      // in all processes
        std::map<std::uint32_t, ebpf::UprobeSet> own;  // counting, in one process each
    };
    // Probes that are to be closed, without the lock, and their files.
    using Surplus = std::vector<std::pair<FileId, ebpf::UprobeSet>>;

    void warn(std::string_view what, const Error &error);
    [[nodiscard]] static bool has_any(const Users &users, const std::set<std::uint32_t> &of);
    [[nodiscard]] LaunchLinks links_of(const FileId &id, const File &file);
    Result<> attach_missing(const FileId &id, File &file, LaunchLinks links, const Users &users);
    [[nodiscard]] bool has_links(const File &file, LaunchLinks links, const Users &users) const;
    // Exchanges the links of a file, if it should have others. False: they stay as they were, also
    // because a process that maps the file keeps its mappings locked.
    bool settle(const FileId &id);
    // For the programs: that ends of the users' launches are, or were, detached from now.
    void say_detached(bool is_driver, const Users &users) const;
    // And which code of the users launches without a probe.
    void say_code(bool is_unseen, const Users &users) const;
    void give_up_if(bool unwanted, const FileId &id, ebpf::UprobeSet &probes, Surplus &surplus);
    void close(Surplus surplus);

    CudaPrograms &programs_;
    std::mutex exchanging_;  // taken before the next one
    std::mutex mutex_;
    std::map<FileId, File> files_;
    std::map<FileId, Users> users_;  // of all wanted files, attached to or not
    Wanted wanted_;
    bool counts_ = false;  // some runtime is counted, and so the driver
    std::map<FileId, std::size_t> closing_;
    RateLimit warnings_{1};
};

// Moves the launches of kernels out of `places`.
[[nodiscard]] CudaPrograms::Places take_launches(CudaPrograms::Places &places);

}  // namespace gpusnoop::probes

// The files that no attacher wants by name, of processes that map a wanted one: a library may have
// an unexpected name, or be part of another.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "exporter/base/fair_queue.h"
#include "exporter/base/file_id.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/mappings/mapping_list.h"

namespace gpusnoop::discovery {

// Hands out each such file once, to be examined. Users take turns (FairQueue), and all of them
// together get a tenth of the time of discovery's thread. Used by that thread.
class UnnamedFiles {
public:
    using Clock = std::chrono::steady_clock;
    // Files that wait; files that are remembered, of one user and of all. Others are not examined.
    static constexpr std::size_t max_waiting = 4096;
    static constexpr std::size_t max_of_user = 8192;
    static constexpr std::size_t max_files = 32'768;
    // Files of one user that are named in the log, until the exporter ends.
    static constexpr std::size_t max_named = 32;
    // A process that begins to map files maps more of them, and wanted ones come first.
    static constexpr std::chrono::milliseconds first_delay{500};
    static constexpr std::chrono::seconds between_scans{1};
    static constexpr std::chrono::seconds longest_pause{1};
    // For one file, whose file system may answer slowly.
    static constexpr std::chrono::seconds longest_turn{2};

    struct Turn {
        FairQueue<ebpf::Mapping>::Owner owner;
        ebpf::Mapping mapping;
        Clock::time_point began;
    };

    // A process maps the file. Whether it was added before with the same contents.
    [[nodiscard]] bool see(const ebpf::Mapping &mapping);
    // For a file that is seen for the first time, by a process of this user.
    void add(std::uint32_t user, const ebpf::Mapping &mapping, Clock::time_point now);
    [[nodiscard]] bool has_work() const { return !waiting_.empty(); }
    // The file to examine now, if one is due. It ends with end_turn().
    [[nodiscard]] std::optional<Turn> begin_turn(Clock::time_point now);
    void end_turn(const Turn &turn, Clock::time_point now);
    // Whether the file may be named in the log: once for each file.
    [[nodiscard]] bool may_name(const Turn &turn);

    // The attacher wants the file for its contents.
    void want(Attacher &attacher, const FileId &id) { wanted_.insert({&attacher, id}); }
    [[nodiscard]] bool is_wanted(Attacher &attacher, const FileId &id) const {
        return !wanted_.empty() && wanted_.contains({&attacher, id});
    }
    void forget_wanted(Attacher &attacher, const FileId &id) { wanted_.erase({&attacher, id}); }

    // The process maps a wanted file, so its other files count.
    void follow(std::uint32_t tgid) { followed_.insert(tgid); }
    // A process has mapped a file that nobody wants by name.
    void has_mapped(std::uint32_t tgid) {
        if (followed_.contains(tgid)) {
            changed_.insert(tgid);
        }
    }
    // The followed processes with such files, at most once in between_scans.
    [[nodiscard]] std::set<std::uint32_t> take_changed(Clock::time_point now);

    // A scan of all processes begins. It calls follow() again for each process to follow.
    void begin_scan() { followed_.clear(); }
    // It has ended: files that two scans did not find are forgotten.
    void end_scan();
    // The attachers want something else: each file is examined again.
    void examine_again();

private:
    // Without the inode's address, which changes when the kernel reads the inode again.
    struct Key {
        std::uint64_t inode;
        std::uint32_t device;
        std::uint32_t generation;
        std::uint64_t bytes;
        std::int64_t modified;
        auto operator<=>(const Key &) const = default;
    };
    struct File {
        std::uint32_t user;
        std::uint64_t seen_in;  // the number of a scan
    };

    [[nodiscard]] static Key key_of(const ebpf::Mapping &mapping);
    void forget(const Key &key);

    std::map<Key, File> files_;
    std::map<std::uint32_t, std::size_t> files_of_user_;
    std::set<std::pair<std::uint32_t, Key>> named_;  // in the log, by user
    FairQueue<ebpf::Mapping> waiting_{max_waiting};
    std::set<std::pair<Attacher *, FileId>> wanted_;
    std::set<std::uint32_t> followed_;
    std::set<std::uint32_t> changed_;
    std::uint64_t scan_ = 0;
    Clock::time_point not_before_{};
    Clock::time_point scan_at_{};
};

}  // namespace gpusnoop::discovery

// Which processes may have made calls that no probe saw.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "exporter/base/file_id.h"
#include "exporter/ebpf/mappings/mapping_list.h"

namespace gpusnoop::probes {

// A process that had a file mapped before the file's probes were active may have called its
// functions unseen. The runtime calls the driver: where all calls of a process to the driver are
// seen, its calls to a runtime are seen there, too. The process's first calls can come before its
// mapping of the driver is known, and say by themselves that the driver's probes see them.
//
// The discovery thread says what it finds; any thread asks.
class MissedCalls {
public:
    struct Key {
        std::uint32_t tgid = 0;
        std::chrono::nanoseconds started{};  // since boot
        std::uint64_t execs = 0;
        auto operator<=>(const Key &) const = default;
    };

    // Processes that were incomplete for an earlier exporter, whose probes are adopted. Before the
    // first call of used().
    void were_incomplete(std::set<Key> processes);

    // `mapped_at`, on the monotonic clock, counts when the mapping is first seen. Without it the
    // process may have had the mapping since its start.
    void used(const ebpf::Mapping &mapping,
              std::optional<std::chrono::nanoseconds> mapped_at = std::nullopt);

    // From now on, all calls of the file's functions are seen.
    void attached(const FileId &file, bool is_driver);
    // The same, but an earlier exporter's probes were there all the time.
    void adopted(const FileId &file, bool is_driver);
    // The file has none of the functions.
    void has_no_functions(const FileId &file);
    void detached(const FileId &file);

    struct Caller {
        std::uint32_t tgid = 0;
        std::chrono::nanoseconds started{};  // since boot, 0 if unknown
        std::uint32_t ppid = 0;              // 0 if unknown
        bool calls_driver = false;           // calls to the driver's own functions were seen
    };
    // A process that no mapping is known of has those of the parent that it was forked from; if the
    // parent is unknown, any file's.
    [[nodiscard]] bool by(const Caller &caller) const;

    // Those that may have made such calls.
    [[nodiscard]] std::set<Key> incomplete() const;

    [[nodiscard]] std::size_t users() const {
        const std::lock_guard lock(mutex_);
        return users_.size();
    }

    // A process that has mapped more files may have made calls in any of them.
    static constexpr std::size_t max_files_of_process = 1024;

    // Changes whenever an answer of by() may change.
    [[nodiscard]] std::uint64_t version() const { return version_; }

private:
    // A file is in use without one of these until it is decided.
    struct File {
        bool is_driver = false;
        bool is_always_seen = false;
        std::chrono::nanoseconds seen_since{};           // on the monotonic clock
        std::chrono::nanoseconds seen_since_boottime{};  // the same moment
    };
    struct Use {
        std::optional<std::chrono::nanoseconds> mapped_at;
        bool is_program = false;
        bool is_driver = false;
    };
    struct User {
        std::chrono::nanoseconds started{};
        std::uint64_t execs = 0;
        bool was_incomplete = false;
        std::map<FileId, Use> files;
    };

    void decide(const FileId &id, bool is_driver, bool is_always_seen);
    [[nodiscard]] const User *find(std::uint32_t tgid, std::chrono::nanoseconds started) const;
    [[nodiscard]] static bool is_seen_from(const File &file, const Use &use,
                                           std::chrono::nanoseconds started);
    [[nodiscard]] bool is_missed(const FileId &id, const Use &use,
                                 std::chrono::nanoseconds started) const;
    [[nodiscard]] bool sees_drivers_mapped_after(const User &user) const;
    [[nodiscard]] bool missed(const User &user, bool calls_driver) const;
    [[nodiscard]] bool missed_by_child(const User &parent, const Caller &child) const;
    [[nodiscard]] bool missed_by_unknown(std::chrono::nanoseconds started) const;
    void forget_ended();

    mutable std::mutex mutex_;
    std::map<FileId, File> files_;
    std::map<std::uint32_t, User> users_;
    std::set<Key> were_incomplete_;
    std::size_t look_for_ended_at_ = 1024;  // processes
    std::atomic<std::uint64_t> version_ = 0;
};

}  // namespace gpusnoop::probes

// The state of each file that a probe may attach to, and what changes it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/processes/file_opener.h"

namespace gpusnoop::discovery {

// An offer is of one file to one attacher. It is always in one of these states:
//
// wanted       The next process that maps the file leads to it. Each offer begins so.
// waiting      The file is opened by its next mapping, but not before a time.
// awaits_turn  The file is opened by its next mapping after files of others.
// opening      A child process opens it.
// opened       Discovery decides what comes of it, within one call.
// settled      It is attached to, or was refused.
//
// And these lead from one to another:
//
// wanted, waiting               begin() -> opening, postpone() -> waiting, await_turn() ->
//                               awaits_turn, settle() -> settled if its path is excluded, refuse()
//                               as below if its user has too many files
// waiting, awaits_turn          take_next() -> wanted, to be opened by the mapping that it returns
// opening                       end_opening() -> opened
// opened                        attach(), reject(), settle() -> settled, postpone() -> waiting,
//                               refuse(), try_again() -> wanted, or waiting if the file was mapped
//                               meanwhile by a process that may open it
// settled                       offer_again() -> wanted, and begin_rescan() if it did not answer
// each                          hold() -> wanted, forget_contents() -> wanted, or waiting if there
//                               is a next mapping, forget() -> gone
//
// It does not ask the kernel or attachers. For one thread.
class FileOffers {
public:
    using Clock = std::chrono::steady_clock;
    using Key = std::pair<Attacher *, FileId>;
    using Opening = processes::FileOpener::Opening;

    static constexpr int rescans_before_letting_go = 2;
    // Of the host's files that nobody uses, the ones used last stay attached to: each has
    // descriptors and memory of the kernel.
    static constexpr std::size_t max_kept = 64;

    enum class State {
        wanted,
        waiting,
        awaits_turn,
        opening,
        opened,
        settled,
    };

    struct Attached {
        Fd file;  // names it
        std::string path;
        std::optional<FileState> state;  // of the file itself
        ebpf::Mapping by;                // by which it was opened
        bool is_lasting = false;         // on a file system that the host keeps
    };

    struct File {
        State state = State::wanted;
        std::unique_ptr<Opening> opening;
        std::optional<ebpf::Mapping> next;  // another mapping to open it by
        Clock::time_point not_before{};     // while it is waiting
        // It could not be opened by this process, which is not asked again before.
        std::uint32_t failed_for = 0;
        Clock::time_point failed_until{};
        int looks_at_locks = 0;  // in a row that found a lock, see discovery_locked.cpp
        int interruptions = 0;   // of reading it, for files of others
        // From its mapping, when the attacher decided. Still there while it is offered again.
        std::optional<FileState> settled_as;
        bool is_slow = false;  // it did not answer at the last try
        std::optional<Attached> attached;
        std::uint32_t user = 0;   // of the process by which it was opened first
        bool is_counted = false;  // for that user
        int idle_rescans = 0;     // in a row, without a process that maps it
        Clock::time_point used_at{};
    };

    [[nodiscard]] const std::map<Key, File> &files() const { return files_; }
    // Of these.
    [[nodiscard]] File &at(const Key &key) { return files_.at(key); }

    // A process maps it, or its path leads to it: from then on it is one of the files.
    void use(const Key &key, Clock::time_point now);
    // Whether its contents are others than when it was settled.
    [[nodiscard]] bool has_changed(const Key &key, const ebpf::Mapping &mapping) const;
    // Whether it is to be opened by this mapping now. If not, this can become its next mapping.
    [[nodiscard]] bool may_begin(const Key &key, const ebpf::Mapping &mapping,
                                 Clock::time_point now);

    // `user`: of the process that it is opened for. It counts for that user while it is opened and
    // attached to.
    void begin(const Key &key, std::unique_ptr<Opening> opening, std::uint32_t user);
    [[nodiscard]] std::unique_ptr<Opening> end_opening(const Key &key);
    void postpone(const Key &key, const ebpf::Mapping &mapping, Clock::time_point until);
    void await_turn(const Key &key, const ebpf::Mapping &mapping);
    // It could not be opened by this process, and is not before `until`.
    void refuse(const Key &key, std::uint32_t tgid, Clock::time_point until);
    // It could not be opened or attached to for a reason that may have passed.
    void try_again(const Key &key);
    // The states are what its mapping shows.
    void attach(const Key &key, Attached attached, const FileState &state);
    void reject(const Key &key, const FileState &state);  // not attached to
    void settle(const Key &key, const FileState &state);  // attached to or not, as before

    // Nothing: it does not wait for this.
    [[nodiscard]] std::optional<ebpf::Mapping> take_next(const Key &key, Clock::time_point now);
    void offer_again(const Key &key);
    // Counts a rescan for each file. Those that did not answer are wanted again.
    void begin_rescan();

    // It is not attached to any more. These return an opening that is to be abandoned.
    [[nodiscard]] std::unique_ptr<Opening> forget_contents(const Key &key);
    [[nodiscard]] std::unique_ptr<Opening> hold(const Key &key);
    [[nodiscard]] std::unique_ptr<Opening> forget(const Key &key);

    // Those that are opened or wait for that.
    [[nodiscard]] const std::set<Key> &busy() const { return busy_; }
    // The same: first those by whose processes' users the least was spent.
    [[nodiscard]] std::vector<Key> in_turn(
        const std::function<Clock::duration(std::uint32_t tgid)> &spent_on) const;
    [[nodiscard]] bool awaits_turn() const;
    [[nodiscard]] bool is_opening() const;  // or awaits its turn for that
    // Those that were attached to since the last call.
    [[nodiscard]] std::vector<Key> take_new() { return std::exchange(new_, {}); }

    // Those to forget, after two rescans without a process that maps them: a program that is
    // restarted meanwhile finds the probes in place. Some of the host's files are kept for longer.
    [[nodiscard]] std::vector<Key> unused(Clock::time_point now, Clock::duration keep) const;

    // Files of the user that are attached to or opened.
    [[nodiscard]] std::size_t of_user(std::uint32_t user) const;
    // Files that did not answer.
    [[nodiscard]] std::size_t slow() const;

private:
    void move_to(State state, const Key &key, File &file);
    void leave(const Key &key, File &file);
    [[nodiscard]] std::unique_ptr<Opening> let_go(File &file);
    [[nodiscard]] bool is_any_busy(State state) const;

    std::map<Key, File> files_;
    std::set<Key> busy_;
    std::vector<Key> new_;
    std::map<std::uint32_t, std::size_t> of_user_;
};

}  // namespace gpusnoop::discovery

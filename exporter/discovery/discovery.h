// Finds the libraries that probes attach to, in every process, from the process's start.
//
// The kernel reports each executable mapping (ebpf/mappings/mmap_events.h). That wakes the
// discovery thread, at most 500 times a second on average (system/sleeper.h). If an attacher wants
// a file by its name, a child process reads the mappings of that process from a BPF iterator
// (processes/mapping_reader.h, ebpf/mappings/mapping_list.h, bpf/processes/mappings.bpf.c). A
// rescan of all processes finds mappings that the events missed.
//
// The kernel identifies the file, not the path: by inode, device and generation of the mapped file,
// which is what a uprobe attaches to. On overlayfs this is the inode of the lower file, the same
// for all containers of one image; stat(2) does not show it. The file is opened through
// /proc/PID/map_files, or else by its path below /proc/PID/root without magic links, and compared
// with the mapped one (processes/file_opener.h). From then on only its descriptor is used, until
// all attachers have decided. What happens to each file, and when, is in file_offers.h.
//
// Besides that, this folder has the files that no attacher wants by name (unnamed_files.h,
// discovery_unnamed.cpp), the files that stay attached while no process maps them
// (discovery_unused.cpp, host_mounts.h), those that are attached to before any process maps them
// (named_files.h, driver_library.h), and gpus/, the GPUs that a process may use.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "exporter/base/rate_limit.h"
#include "exporter/base/result.h"
#include "exporter/discovery/failed_files.h"
#include "exporter/discovery/file_offers.h"
#include "exporter/discovery/found_libraries.h"
#include "exporter/discovery/library.h"
#include "exporter/discovery/named_files.h"
#include "exporter/discovery/progress.h"
#include "exporter/discovery/released.h"
#include "exporter/discovery/turns.h"
#include "exporter/discovery/unnamed_files.h"
#include "exporter/ebpf/attach/detacher.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/ebpf/mappings/mmap_events.h"
#include "exporter/processes/file_opener.h"
#include "exporter/processes/mapping_reader.h"
#include "exporter/system/sleeper.h"

namespace gpusnoop::discovery {

// A thread that receives new mappings (ebpf::MmapEvents), asks the kernel which files they are
// (ebpf::MappingList), and offers each wanted file to its attachers once. A slow rescan of all
// processes finds the mappings that the events missed, and the files that no process maps any more.
//
// It does not wait for files that others own (FileOpener), nor for processes that keep their
// mappings locked (MappingReader). The mappings of one process delay others by milliseconds only.
class Discovery {
public:
    struct Settings {
        std::chrono::milliseconds rescan_interval{30'000};
        // How long a file of the host stays attached to after its last user ended.
        std::chrono::milliseconds keep{600'000};
        // Globs of paths on the host: these files are attached to before any process maps them, and
        // as long as they are there. The host's driver library is one of them without being named.
        std::vector<std::string> preattach = {};
        // Returns why a file must not be attached to, or empty. Called first with the path alone,
        // and then with the file's contents.
        std::function<std::optional<std::string>(const Library &)> exclude = {};
        // Called by the thread when a process maps a wanted file and none did before. A file may be
        // mapped by a process that the events missed: then when a scan finds it.
        std::function<void()> on_use = [] {};
    };

    // `attachers` must outlive the Discovery.
    static Result<std::unique_ptr<Discovery>> open(Settings settings,
                                                   std::vector<Attacher *> attachers);
    ~Discovery();
    Discovery(const Discovery &) = delete;
    Discovery &operator=(const Discovery &) = delete;

    // Starts the thread, which first scans every running process. Returns after that scan, or when
    // the thread is stuck.
    void start();

    // Makes the thread call `change`. If that returns true, the thread offers the attacher all
    // files again: first the files offered before, attached to or not, and then all others that are
    // mapped. Returns when that is done, or fails after a long wait: then it is done later, so
    // `change` must not refer to objects of the caller. For other threads, while this one runs.
    Result<> change(Attacher &attacher, std::function<bool()> change);

    // What is left of probes in processes that were released.
    struct Release {
        std::size_t files = 0;              // that they map and that are not attached to
        std::size_t files_with_probes = 0;  // of these: their probes are being detached
        // Threads in a call whose return a probe waits for, the exporter's or another tool's: the
        // address that they return to is not the program's.
        std::size_t threads_in_calls = 0;

        [[nodiscard]] bool is_complete() const {
            return files_with_probes == 0 && threads_in_calls == 0;
        }
    };
    // Takes all probes from the files that these processes map, so that their memory can be saved:
    // it has no breakpoint then. None of the files is attached to until `time` has passed, the
    // processes have ended, or take_back(). Other processes that map such a file are not seen
    // meanwhile. Waits 8 s for what is left to be gone. An error: ESRCH, there is no such process.
    // For other threads.
    Result<Release> release(std::vector<std::uint32_t> tgids, std::chrono::milliseconds time);
    // How many of them were released. ESRCH: none.
    Result<std::size_t> take_back(std::vector<std::uint32_t> tgids);

    // The files that attachers want and processes use. For any thread.
    [[nodiscard]] std::vector<FoundLibrary> libraries() const { return found_.list(); }

    // The thread's progress. For any thread.
    [[nodiscard]] const Progress &progress() const { return progress_; }

private:
    using Clock = std::chrono::steady_clock;
    using Key = FileOffers::Key;
    using File = FileOffers::File;
    // How long files are offered to attachers before new processes are looked at again.
    static constexpr std::chrono::milliseconds turn{50};
    // What the files of one user may take of discovery's time, as Turns adds it up: about a fifth
    // of it, if the user goes on so.
    static constexpr std::chrono::milliseconds share_of_user{3000};
    // The user of a process that is gone.
    static constexpr std::uint32_t unknown_user = UINT32_MAX;

    struct Task {
        std::function<void()> run;
        std::promise<void> done;
    };

    Discovery(Settings settings, std::vector<Attacher *> attachers);

    // discovery.cpp: the rounds, and the processes that are looked at in them.
    void run(const std::stop_token &stop);
    void sleep(Clock::time_point rounds_until, Clock::time_point rescan_at);
    void hear_of_mappings();
    void note_use();
    void look_at_changed();
    void add_silent();
    void look_at(std::uint32_t tgid);
    void look_at_all(bool timed);
    void consider_all(const std::vector<ebpf::Mapping> &mappings);
    [[nodiscard]] bool wanted(std::string_view name) const;
    Result<> run_on_thread(std::function<void()> task);
    void run_tasks();
    void offer_again(Attacher &attacher);

    // discovery_unnamed.cpp: files that no attacher wants by name.
    void add_unnamed(const std::vector<ebpf::Mapping> &mappings,
                     const std::set<std::uint32_t> &users);
    void examine_unnamed();
    void examine(const processes::FileOpener::Opening &opening, processes::MappedFile file);

    // discovery_unused.cpp: files that no process maps.
    void look_at_named();
    void note_mounts();
    void forget_unused();

    // discovery_released.cpp: files that are not to be attached to for a while.
    Result<> take_probes_from(const std::vector<std::uint32_t> &tgids, Clock::time_point until);
    [[nodiscard]] bool is_held(const ebpf::Mapping &mapping);
    void hold(const Key &key);
    [[nodiscard]] Result<Release> state_of_release(const std::vector<std::uint32_t> &tgids);
    bool end_release(std::uint32_t tgid, std::string_view reason);  // false: it was not released
    void end_old_releases();

    // discovery_locked.cpp: files that cannot be attached to yet.
    void note_unreadable();
    [[nodiscard]] bool must_wait_for(const FileId &id);
    [[nodiscard]] bool must_wait(const Key &key, const ebpf::Mapping &mapping);
    void await_unlock(const Key &key, const ebpf::Mapping &mapping, const Error &error);

    // discovery_shares.cpp: what one user may take.
    [[nodiscard]] bool may_try(const ebpf::Mapping &mapping);
    [[nodiscard]] static std::uint32_t user_of(std::uint32_t tgid);
    [[nodiscard]] std::optional<Error> over_limit(const ebpf::Mapping &mapping,
                                                  std::uint32_t user) const;
    [[nodiscard]] bool must_wait_for_share(const Key &key, const ebpf::Mapping &mapping);
    [[nodiscard]] bool others_wait(std::uint32_t user);
    [[nodiscard]] Turns::Spending spend_on(std::uint32_t tgid);
    [[nodiscard]] Clock::duration spent_on(std::uint32_t tgid) const;

    // discovery_files.cpp: open each file and offer it.
    void forget_changed();
    void let_go(const Key &key);
    void abandon(const std::unique_ptr<processes::FileOpener::Opening> &opening);
    void consider(const ebpf::Mapping &mapping, Attacher &attacher);
    void begin_to_open(const ebpf::Mapping &mapping, const Key &key);
    void go_on_opening();
    void finish_opening();
    void advance(const Key &key, std::chrono::milliseconds patience);
    void await_answer(const Key &key, const ebpf::Mapping &mapping, const Error &error);
    void refuse(const Key &key, const ebpf::Mapping &mapping, const Error &error);
    Result<> attach(const Key &key, Library &library, std::uint32_t tgid);
    [[nodiscard]] bool is_excluded(const Key &key, const ebpf::Mapping &mapping,
                                   const Library &library);
    void offer(const Key &key, const processes::FileOpener::Opening &opening,
               processes::MappedFile file);
    void note_slow_files() { progress_.note_slow_files(offers_.slow()); }
    void complain_of(std::uint32_t tgid, const Error &error);
    void complain(std::string_view what, const ebpf::Mapping &mapping, const Error &error);

    Settings settings_;
    std::vector<Attacher *> attachers_;
    struct Kernel {
        std::unique_ptr<ebpf::MappingList> list;
        std::unique_ptr<processes::MappingReader> mappings;  // reads the list
        std::unique_ptr<ebpf::MmapEvents> events;
        std::unique_ptr<ebpf::GracePeriod> grace_period;
        std::unique_ptr<NamedFiles> named;
    };
    Kernel kernel_;
    FileOffers offers_;
    struct Openings {
        std::unique_ptr<processes::FileOpener> opener;
        Clock::duration patience{};  // for files that do not answer at once, in this round
        // When files of others get their turn: attachers can take seconds for a file.
        Clock::time_point turn_until{};
        std::stop_token stop;  // of the thread, for attachers
    };
    Openings openings_;
    struct Unnamed {
        UnnamedFiles files;
        std::optional<UnnamedFiles::Turn> turn;
        std::unique_ptr<processes::FileOpener::Opening> opening;  // of the turn's file
    };
    Unnamed unnamed_;
    struct News {
        std::set<std::uint32_t> processes;  // that map something new
        std::uint32_t looked_at_last = 0;   // of them
        // Those that did not answer, or that a scan could not read.
        std::set<std::uint32_t> silent;
        std::uint32_t asked_of_silent = 0;  // the last one
        Clock::time_point look_at_silent_at{};
        // When each of them first mapped a file of that name, as far as it was not looked at yet.
        std::map<std::pair<std::uint32_t, std::string>, std::chrono::nanoseconds> mapped_at;
        bool missed_some = false;
    };
    News news_;
    struct Held {
        Released files;
        Clock::time_point look_at_processes_at{};
    };
    Held held_;
    // What one user or process may take, of time, of failures and of the log.
    struct Shares {
        Turns turns;  // by all that is done for a user
        Turns files;  // by attaching, which is done for one file at a time
        FailedFiles failures;
        LineLimit lines;
    };
    Shares shares_;
    FoundLibraries found_;
    Progress progress_;
    Sleeper sleeper_;
    struct Tasks {
        std::mutex mutex;
        std::vector<Task> waiting;
    };
    Tasks tasks_;
    std::jthread thread_;
};

}  // namespace gpusnoop::discovery

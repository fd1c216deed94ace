// Finds the libraries that probes attach to, in every process, from its start on.
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
#include "exporter/discovery/found_libraries.h"
#include "exporter/discovery/library.h"
#include "exporter/discovery/progress.h"
#include "exporter/ebpf/mapping_list.h"
#include "exporter/ebpf/mmap_events.h"
#include "exporter/processes/file_opener.h"

namespace gpusnoop::discovery {

// A thread that hears of new mappings (ebpf::MmapEvents), asks the kernel which files they are
// (ebpf::MappingList), and has each wanted file attached to once. A slow rescan of all processes
// is the net below, and notices what nobody maps any more.
//
// It does not wait for files that others own (FileOpener), and what one process maps keeps it from
// others for milliseconds only.
class Discovery {
public:
    struct Settings {
        std::chrono::milliseconds look_interval{10};
        std::chrono::milliseconds rescan_interval{30'000};
        // Why a file is to be left alone, if it is: first asked with the path alone, and then with
        // what is in it.
        std::function<std::optional<std::string>(const Library &)> exclude = {};
    };

    // `attachers` must outlive the Discovery.
    static Result<std::unique_ptr<Discovery>> open(Settings settings,
                                                   std::vector<Attacher *> attachers);
    ~Discovery();
    Discovery(const Discovery &) = delete;
    Discovery &operator=(const Discovery &) = delete;

    // Starts the thread, which looks at every running process first. Returns when it has, or when
    // it is stuck.
    void start();

    // Has the thread end, and waits for that so long. False if it has not: it waits in the kernel.
    [[nodiscard]] bool stop(std::chrono::milliseconds patience);

    // Has the thread call `change`, and if that returns true, offer the attacher all files again:
    // those that it was offered before, attached to or not, and then all others that are mapped.
    // Returns when it has, or fails if that takes very long: then it is done later, so `change`
    // must not refer to what is the caller's. For other threads, while this one runs.
    Result<> change(Attacher &attacher, std::function<bool()> change);

    // The files that attachers want and processes use. For any thread.
    [[nodiscard]] std::vector<FoundLibrary> libraries() const { return found_.list(); }

    // How the thread gets on. For any thread.
    [[nodiscard]] const Progress &progress() const { return progress_; }

private:
    using Clock = std::chrono::steady_clock;
    using Key = std::pair<Attacher *, FileId>;

    // What became of a wanted file.
    struct Known {
        bool settled = false;  // attached, or refused for good
        bool is_due = false;   // settled, and to be offered again
        bool is_slow = false;  // it did not answer when it was last tried
        int idle_rescans = 0;  // in a row that found no process mapping it
        FileState state;       // when it was settled, as it is mapped
        // While it is attached to:
        Fd file;  // names it
        std::string path;
        std::optional<FileState> attached_as;

        std::unique_ptr<processes::FileOpener::Opening> opening;
        std::optional<ebpf::Mapping> last;  // that was opened
        std::optional<ebpf::Mapping> next;  // another way to it
        Clock::time_point not_before{};     // it is tried again then
        std::uint32_t failed_for = 0;       // only for this process, unless it is 0

        [[nodiscard]] bool is_attached() const { return static_cast<bool>(file); }
    };

    struct Change {
        Attacher *attacher;
        std::function<bool()> change;
        std::promise<void> done;
    };

    Discovery(Settings settings, std::vector<Attacher *> attachers);

    // Which files processes use: discovery.cpp.
    void run(const std::stop_token &stop);
    void hear_of_mappings();
    void look_at_changed();
    void look_at(std::uint32_t tgid);
    void look_at_all(bool timed);
    void consider_all(const std::vector<ebpf::Mapping> &mappings);
    void forget_unused();
    void make_changes();
    void offer_again(Attacher &attacher);
    [[nodiscard]] bool wanted(std::string_view name) const;

    // What becomes of each: discovery_files.cpp.
    void forget_changed();
    void let_go(const Key &key, Known &known);
    void consider(const ebpf::Mapping &mapping, Attacher &attacher, Known &known);
    [[nodiscard]] bool may_try(const ebpf::Mapping &mapping);
    void begin_to_open(const ebpf::Mapping &mapping, const Key &key, Known &known);
    [[nodiscard]] bool is_opening() const;
    void go_on_opening();
    void finish_opening();
    void advance(const Key &key, Known &known, std::chrono::milliseconds patience);
    void postpone(const Key &key, Known &known, const ebpf::Mapping &mapping,
                  Clock::duration delay);
    void refuse(const Key &key, Known &known, const ebpf::Mapping &mapping, const Error &error);
    [[nodiscard]] bool is_excluded(const Key &key, Known &known, const ebpf::Mapping &mapping,
                                   const Library &library);
    void offer(const Key &key, Known &known, const processes::FileOpener::Opening &opening,
               processes::MappedFile file);
    [[nodiscard]] bool must_wait_for(const FileId &id);
    void settle(Known &known, const ebpf::Mapping &mapping);
    void count_slow_files();
    void complain(std::string_view what, const ebpf::Mapping &mapping, const Error &error);

    Settings settings_;
    std::vector<Attacher *> attachers_;
    struct Kernel {
        std::unique_ptr<ebpf::MappingList> mappings;
        std::unique_ptr<ebpf::MmapEvents> events;
    };
    Kernel kernel_;
    std::map<Key, Known> known_;
    struct Openings {
        std::unique_ptr<processes::FileOpener> opener;
        std::set<Key> keys;  // of files that have not answered yet, or are tried again later
        Clock::duration patience{};  // for files that do not answer at once, in this round
    };
    Openings openings_;
    struct News {
        std::set<std::uint32_t> processes;  // that map something new
        bool missed_some = false;
    };
    News news_;
    FailedFiles failures_;
    LineLimit lines_;
    FoundLibraries found_;
    Progress progress_;
    struct Changes {
        std::mutex mutex;
        std::vector<Change> waiting;
    };
    Changes changes_;
    std::jthread thread_;
};

}  // namespace gpusnoop::discovery

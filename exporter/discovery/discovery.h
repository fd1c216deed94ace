// Finds the libraries that probes attach to, in every process, from its start on.
#pragma once

#include <chrono>
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
#include <vector>

#include "exporter/base/rate_limit.h"
#include "exporter/base/result.h"
#include "exporter/discovery/found_libraries.h"
#include "exporter/discovery/library.h"
#include "exporter/discovery/open_mapped.h"
#include "exporter/kernel/mapping_list.h"
#include "exporter/kernel/mmap_events.h"

namespace gpusnoop::discovery {

// A thread that hears of new mappings (kernel::MmapEvents), asks the kernel which files they are
// (kernel::MappingList), and has each wanted file attached to once. A slow rescan of all processes
// is the net below, and notices what nobody maps any more.
class Discovery {
public:
    struct Settings {
        std::chrono::milliseconds look_interval{10};
        std::chrono::milliseconds rescan_interval{30'000};
    };

    // `attachers` must outlive the Discovery.
    static Result<std::unique_ptr<Discovery>> open(Settings settings,
                                                   std::vector<Attacher *> attachers);
    ~Discovery();
    Discovery(const Discovery &) = delete;
    Discovery &operator=(const Discovery &) = delete;

    // Looks at every running process, then starts the thread.
    void start();

    // Has the thread call `change`, and if that returns true, offer the attacher all files anew:
    // those that it was offered before, attached to or not, and then all others that are mapped.
    // Returns when it has. For other threads, while this one runs.
    void change(Attacher &attacher, std::function<bool()> change);

    // The files that attachers want and processes use. For any thread.
    [[nodiscard]] std::vector<FoundLibrary> libraries() const { return found_.list(); }

private:
    // What became of a wanted file.
    struct Known {
        bool settled = false;            // attached, or refused for good
        bool refused = false;            // settled, but not attached: the file is closed
        int idle_rescans = 0;            // in a row that found no process mapping it
        bool is_due = false;             // settled, and to be offered again
        Library library;                 // while settled
        std::optional<FileState> state;  // when it was settled
    };

    struct Change {
        Attacher *attacher;
        std::function<bool()> change;
        std::promise<void> done;
    };

    Discovery(Settings settings, std::vector<Attacher *> attachers);
    void run(const std::stop_token &stop);
    void look_at(std::uint32_t tgid);
    void look_at_all(bool timed);
    void consider_all(const std::vector<kernel::Mapping> &mappings);
    void forget_changed();
    void consider(const kernel::Mapping &mapping, Attacher &attacher, Known &known);
    void complain(std::string_view message, const kernel::Mapping &mapping, const Error &error);
    Result<> offer(Attacher &attacher, Known &known, Library library);
    void offer_again(Attacher &attacher);
    void make_changes();
    [[nodiscard]] bool wanted(std::string_view name) const;

    Settings settings_;
    std::vector<Attacher *> attachers_;
    std::unique_ptr<kernel::MappingList> mappings_;
    std::unique_ptr<kernel::MmapEvents> events_;
    std::map<std::pair<Attacher *, FileId>, Known> known_;
    FoundLibraries found_;
    bool look_again_ = false;  // a file could not be attached to yet
    bool is_timed_ = false;    // the look that is being taken
    LineLimit lines_;
    std::mutex changes_mutex_;
    std::vector<Change> changes_;
    std::jthread thread_;
};

}  // namespace gpusnoop::discovery

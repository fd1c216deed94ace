// Detaches in the background: detaching is slow, and attaching must not wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
#include "exporter/ebpf/attach/uprobe.h"

namespace gpusnoop::ebpf {

// Closing a link waits until no CPU can still run its program: a twentieth of a second or more for
// each link. Links of session and multi probes wait in parallel, so there are several threads. Perf
// events wait one by one, under a kernel lock that attaching a perf event takes, too. So they have
// one thread, which pauses between two. A file that a process maps which keeps its mappings locked
// is detached from when the process has unlocked them (mapper_locks.h).
class Detacher {
public:
    explicit Detacher(AttachMode mode) : mode_(mode) {}
    // Returns when everything is detached.
    ~Detacher();
    Detacher(const Detacher &) = delete;
    Detacher &operator=(const Detacher &) = delete;

    struct Job {
        FileId file;
        UprobeSet probes{};
        // The file has other contents now: no old probe may be left when the file is attached to
        // again, because the kernel keeps the instructions that its breakpoints replaced. Holds for
        // earlier jobs of the file, too.
        bool is_changed = false;
        // Called by a thread of the detacher, when all is detached.
        std::function<void()> done{};
    };
    // Returns immediately.
    void detach(Job job);

    // The probes that are still attached to the file and can stay, for UprobeSet::attach(). Jobs
    // with a `done` are not taken back.
    [[nodiscard]] std::optional<UprobeSet> take_back(const FileId &file);

    // Whether the file cannot be attached to yet. If so, it becomes the next to be detached.
    [[nodiscard]] bool must_wait_for(const FileId &file);

private:
    using Clock = std::chrono::steady_clock;
    struct Entry {
        Job job;
        // A process that maps the file keeps its mappings locked: the kernel would wait for it.
        Clock::time_point not_before{};
        bool is_looked_at = false;  // by a thread, for such a process
        std::size_t closing = 0;    // links that threads are closing at this moment
        bool has_begun = false;
    };
    using Entries = std::list<Entry>;

    [[nodiscard]] bool has_thread();
    void work(const std::stop_token &stop);
    [[nodiscard]] bool is_done() const;
    [[nodiscard]] Entries::iterator next();
    [[nodiscard]] Entries::iterator take_next(std::unique_lock<std::mutex> &lock);
    [[nodiscard]] bool can_be_taken_back(const Entry &entry) const;

    AttachMode mode_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    Entries entries_;
    std::size_t idle_ = 0;               // threads that wait for work
    std::vector<std::jthread> threads_;  // the last: they end before the members that they use
};

// Has the kernel wait ahead for what the next uprobe needs.

// Before the kernel sets a file's first breakpoint, it waits for an RCU grace period
// (percpu_down_write() of dup_mmap_sem in register_for_each_vma(), kernel/events/uprobes.c), which
// takes far longer than all else. Uprobes that follow each other closely wait once together
// (kernel/rcu/sync.c). So a uprobe that does nothing begins the wait as soon as a file is found,
// and the file is opened and read meanwhile.
class GracePeriod {
public:
    // Null where the kernel has no uprobe.multi: then attaching takes longer.
    static std::unique_ptr<GracePeriod> open();
    ~GracePeriod();
    GracePeriod(const GracePeriod &) = delete;
    GracePeriod &operator=(const GracePeriod &) = delete;

    // Returns at once.
    void begin();

private:
    GracePeriod(Fd program, Fd file);
    void run(const std::stop_token &stop);

    Fd program_;
    Fd file_;  // of this process, and never executed
    std::mutex mutex_;
    std::condition_variable_any wanted_changed_;
    bool is_wanted_ = false;
    std::jthread thread_;
};

}  // namespace gpusnoop::ebpf

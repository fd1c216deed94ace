// Has the kernel wait ahead for what the next uprobe needs.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "exporter/base/fd.h"

namespace gpusnoop::ebpf {

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

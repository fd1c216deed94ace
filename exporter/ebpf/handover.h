// Lets this process end quickly, however many functions it is attached to.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <thread>

namespace gpusnoop::ebpf {

// The kernel takes a tenth of a second to close a perf event that a program is attached to, and
// closes one at a time. So a child process inherits all perf events, if at least so many have a
// program, and closes them after this process has ended. It can be seen for as long as that takes,
// so fewer are not worth it: closing the seven of the probe `fence` takes 0.7 s. To be called
// before the first is closed.
void hand_over_perf_events(std::size_t at_least = 4);

// Whether a child process has inherited all links: then closing one takes this process no time, and
// detaches from nothing.
[[nodiscard]] bool are_links_handed_over();

// Code that detaches during its lifetime has `patience` to finish. Links that are left then are
// inherited by a child process, which detaches them after this process has ended. So closing them
// takes this process no more time. If the child is killed, the kernel detaches them.
//
// With `longest`, this process ends at that time, with the exit status 0, even if a thread of it
// still waits: for a file or a process of somebody else, who must not be able to delay the end.
class Handover {
public:
    explicit Handover(std::chrono::milliseconds patience = std::chrono::seconds(2),
                      std::optional<std::chrono::milliseconds> longest = {});
    // Everything was detached in time, or handed over.
    ~Handover();
    Handover(const Handover &) = delete;
    Handover &operator=(const Handover &) = delete;

private:
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::jthread thread_;  // the last member: it ends before the members that it uses
};

}  // namespace gpusnoop::ebpf

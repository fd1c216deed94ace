// Ends this process soon, however much it is attached to.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace gpusnoop::ebpf {

// Whatever detaches while this lives has `patience` for it. What is attached then is inherited by a
// process of its own, which does nothing but detach, after this one has ended: so closing links
// costs this one no time any more. If that process is killed, the kernel does the same.
class Handover {
public:
    explicit Handover(std::chrono::milliseconds patience = std::chrono::seconds(2));
    // Everything was detached in time, or handed over.
    ~Handover();
    Handover(const Handover &) = delete;
    Handover &operator=(const Handover &) = delete;

private:
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::jthread thread_;  // the last: it ends before what it uses
};

}  // namespace gpusnoop::ebpf

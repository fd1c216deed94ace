// What a probe of kernel functions or tracepoints is attached to, or why to nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "exporter/base/result.h"
#include "exporter/probes/frame/probe.h"

namespace gpusnoop::probes {

// To no function: the probe is down, and `detail` says why. Else it says how.
struct Attachment {
    std::size_t functions = 0;
    std::string detail;
};

// Changed by the thread that attaches, read by any.
class AttachState {
public:
    explicit AttachState(std::string probe) : probe_(std::move(probe)) {}

    void set(Attachment attachment);
    // Counts and logs a failure to attach. What else is attached stays so.
    void failed(const Error &error);

    [[nodiscard]] const std::string &probe() const { return probe_; }
    [[nodiscard]] Attachment get() const;
    // All but what the programs count of themselves.
    [[nodiscard]] Health health() const;

private:
    const std::string probe_;
    mutable std::mutex mutex_;
    Attachment attachment_{0, "not started"};
    std::uint64_t failures_ = 0;
};

}  // namespace gpusnoop::probes

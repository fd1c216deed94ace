// The functions or tracepoints that a kernel-side probe is attached to, or why it is attached to
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "exporter/base/result.h"
#include "exporter/probes/frame/probe.h"

namespace gpusnoop::probes {

// With 0 functions the probe is down, and `detail` has the reason. Else `detail` says how it is
// attached.
struct Attachment {
    std::size_t functions = 0;
    std::string detail;
};

// The attaching thread changes it; any thread may read it.
class AttachState {
public:
    explicit AttachState(std::string probe) : probe_(std::move(probe)) {}

    void set(Attachment attachment);
    // Counts and logs a failure to attach. Other attachments stay.
    void failed(const Error &error);

    [[nodiscard]] const std::string &probe() const { return probe_; }
    [[nodiscard]] Attachment get() const;
    // All fields except the counts of the BPF programs.
    [[nodiscard]] Health health() const;

private:
    const std::string probe_;
    mutable std::mutex mutex_;
    Attachment attachment_{0, "not started"};
    std::uint64_t failures_ = 0;
};

}  // namespace gpusnoop::probes

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

struct Attachment {
    std::size_t functions = 0;
    ProbeState state = ProbeState::failed;
    std::string detail;  // how it is attached, or why it is not up
};

// The attaching thread changes it; any thread may read it.
class AttachState {
public:
    explicit AttachState(std::string probe) : probe_(std::move(probe)) {}

    // Attached to functions, at least one; `detail` says how.
    void up(std::size_t functions, std::string detail);
    // Attached to nothing; the error's code decides between `unsupported` and `failed`.
    void down(const Error &error);
    // Counts and logs a failure to attach. Other attachments stay.
    void failed(const Error &error);

    [[nodiscard]] const std::string &probe() const { return probe_; }
    [[nodiscard]] Attachment get() const;
    // All fields except the counts of the BPF programs.
    [[nodiscard]] Health health() const;

private:
    const std::string probe_;
    mutable std::mutex mutex_;
    Attachment attachment_{.detail = "not started"};
    std::uint64_t failures_ = 0;
};

}  // namespace gpusnoop::probes

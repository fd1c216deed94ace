// Reads the accounts of launching threads.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/probes/frame/process_identity.h"
#include "exporter/probes/host_time/aggregator.h"

struct bpf_program;

namespace gpusnoop::probes {

// For one thread.
class HostTimeReader {
public:
    // The iterator over threads, and the table of ended ones, which must outlive it.
    static Result<std::unique_ptr<HostTimeReader>> open(const bpf_program *threads, int past);

    // Visits all threads of the machine.
    [[nodiscard]] Result<HostTimeReading> read() const;
    // Deletes what is kept of these processes.
    void forget(std::span<const ProcessKey> processes) const;

private:
    HostTimeReader(Fd threads, int past);

    Fd threads_;  // a link
    int past_;
    std::vector<std::uint32_t> nodes_;  // by CPU
};

}  // namespace gpusnoop::probes

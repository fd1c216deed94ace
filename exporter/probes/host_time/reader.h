// Reads the accounts of launching threads.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/host_time/aggregator.h"

struct bpf_program;

namespace gpusnoop::probes {

// For one thread.
class HostTimeReader {
public:
    // The iterators over launching threads and over the others, loaded, and the tables of ended
    // ones and of waits for files, which must outlive it.
    struct Sources {
        const bpf_program *threads;
        const bpf_program *waiters;
        int past;
        int waits_past;
        int file_waits;
        int devices;
    };
    static Result<std::unique_ptr<HostTimeReader>> open(const Sources &sources);

    // Visits all threads of the machine, twice. What threads wait for that ran before their
    // process was followed is counted from the first reading on.
    [[nodiscard]] Result<HostTimeReading> read() const;
    // Deletes what is kept of these processes.
    void forget(std::span<const ProcessKey> processes) const;
    // Deletes what earlier exporters have left.
    void forget_all() const;

private:
    HostTimeReader(const Sources &sources, Fd threads, Fd waiters,
                   std::vector<std::uint32_t> nodes);

    // The ended threads are read first: see HostTimeReading.
    Result<> read_ended(HostTimeReading &reading) const;
    Result<> read_running(HostTimeReading &reading) const;
    void forget_parts(const std::function<bool(const ProcessKey &)> &of) const;

    Sources sources_;
    Fd threads_, waiters_;              // links
    std::vector<std::uint32_t> nodes_;  // by CPU
};

}  // namespace gpusnoop::probes

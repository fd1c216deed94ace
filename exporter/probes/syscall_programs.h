// The syscall probe's BPF side: loading it, and reading its tables.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/kernel/object.h"
#include "exporter/probes/process_identity.h"
#include "exporter/probes/syscall_aggregator.h"
#include "exporter/probes/targets.h"

namespace gpusnoop::probes {

class SyscallPrograms {
public:
    enum class Mode {
        count,
        // A struct syscall_record of each call is in the ring, but of this process's own; the
        // tables stay empty.
        trace,
    };

    // Loaded and attached. `targets` has been started.
    static Result<std::unique_ptr<SyscallPrograms>> load(const config::Config::Syscall &config,
                                                         Targets &targets, Mode mode = Mode::count);
    ~SyscallPrograms();
    SyscallPrograms(const SyscallPrograms &) = delete;
    SyscallPrograms &operator=(const SyscallPrograms &) = delete;

    [[nodiscard]] Result<SyscallReading> read() const;
    // Deletes what a reading has of these processes, which have ended.
    void forget(const SyscallReading &reading, const std::vector<ProcessKey> &processes) const;

    // Programs at system calls.
    [[nodiscard]] std::size_t attached() const;
    // Where they are: at the kernel's "tracepoints" for system calls, or at the "functions" that
    // call these.
    [[nodiscard]] std::string_view at() const;
    [[nodiscard]] int records_ring() const;
    [[nodiscard]] int account_map() const;
    [[nodiscard]] kernel::Runs runs() const;

private:
    struct Loaded;
    explicit SyscallPrograms(std::unique_ptr<Loaded> loaded);

    std::unique_ptr<Loaded> loaded_;
};

}  // namespace gpusnoop::probes

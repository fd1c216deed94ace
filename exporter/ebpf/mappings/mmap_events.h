// Reports every executable file mapping that any process makes, as it happens.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// One thread reads.
class MmapEvents {
public:
    // The process, the file (its path in the process's mount namespace, or only the last part of
    // it; valid during the call), and when it was mapped, on the kernel's monotonic clock.
    using OnMap =
        std::function<void(std::uint32_t tgid, std::string_view path, std::chrono::nanoseconds at)>;

    // By perf, or where that is not allowed, by a BPF program.
    static Result<std::unique_ptr<MmapEvents>> open();
    // By perf's MMAP2 records, in one small buffer per CPU. Needs CAP_PERFMON, and where
    // kernel.perf_event_paranoid is above 2, as on Debian and Ubuntu, CAP_SYS_ADMIN.
    static Result<std::unique_ptr<MmapEvents>> open_perf();
    // By a program at a function of the kernel (fentry). Needs CAP_BPF and CAP_PERFMON.
    static Result<std::unique_ptr<MmapEvents>> open_bpf();

    MmapEvents() = default;
    virtual ~MmapEvents() = default;
    MmapEvents(const MmapEvents &) = delete;
    MmapEvents &operator=(const MmapEvents &) = delete;

    // Returns how many events the kernel dropped since the last call: if any, scan all processes.
    virtual std::uint64_t read(const OnMap &on_map) = 0;

    // Readable, for poll(2), when there are records that poll(2) has not told of, or that were not
    // read.
    [[nodiscard]] virtual int readiness() const = 0;
};

}  // namespace gpusnoop::ebpf

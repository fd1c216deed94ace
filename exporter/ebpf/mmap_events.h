// Reports every executable file mapping that any process makes, as it happens.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// Perf's MMAP2 records, in one small buffer per CPU. One thread reads.
class MmapEvents {
public:
    // The process, the path of the mapped file (in the process's mount namespace; valid during the
    // call), and when it was mapped, on the kernel's monotonic clock.
    using OnMap =
        std::function<void(std::uint32_t tgid, std::string_view path, std::chrono::nanoseconds at)>;

    // Needs CAP_PERFMON or kernel.perf_event_paranoid <= 0.
    static Result<std::unique_ptr<MmapEvents>> open();
    ~MmapEvents();
    MmapEvents(const MmapEvents &) = delete;
    MmapEvents &operator=(const MmapEvents &) = delete;

    // Returns how many events the kernel dropped since the last call: if any, scan all processes.
    std::uint64_t read(const OnMap &on_map);

    // Readable, for poll(2), once after each record that came since the last poll.
    [[nodiscard]] int readiness() const { return readiness_.get(); }

private:
    struct Buffer;
    MmapEvents();
    Fd readiness_;  // an epoll of all buffers
    std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace gpusnoop::ebpf

#include "exporter/ebpf/mappings/mmap_events.h"

#include <cerrno>

namespace gpusnoop::ebpf {

Result<std::unique_ptr<MmapEvents>> MmapEvents::open() {
    auto events = open_perf();
    if (events || (events.error().code != EACCES && events.error().code != EPERM)) {
        return events;
    }
    auto others = open_bpf();
    return others ? std::move(others)
                  : fail(events.error().message + ", and " + others.error().message,
                         events.error().code);
}

}  // namespace gpusnoop::ebpf

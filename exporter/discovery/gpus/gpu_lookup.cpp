#include "exporter/discovery/gpus/gpu_lookup.h"

#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/log.h"

namespace gpusnoop::discovery {

GpuLookup::GpuLookup(std::vector<Gpu> gpus, std::chrono::milliseconds patience)
    : gpus_(std::move(gpus)),
      reader_({.patience = patience, .of_user = 3 * patience, .patience_with_cpu = 5 * patience}) {}

VisibleGpus GpuLookup::of(std::uint32_t tgid) {
    if (gpus_.size() <= 1) {
        return VisibleGpus::of_unknown(gpus_);
    }
    auto visible = reader_.about(tgid, [&] { return visible_gpus_of(reader_, tgid, gpus_); });
    if (visible) {
        return *std::move(visible);
    }
    constexpr std::string_view line = "cannot determine which GPUs a process can use";
    if (const auto more = lines_.due(line)) {
        log::warn(line, {{"pid", std::to_string(tgid)},
                         {"reason", visible.error().message},
                         {"more_since_last_line", *more}});
    }
    return VisibleGpus::of_unknown(gpus_);
}

}  // namespace gpusnoop::discovery

#include "exporter/discovery/gpus/gpu_lookup.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/discovery/gpus/device_program_reader.h"
#include "exporter/discovery/gpus/environment.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::discovery {

GpuLookup::GpuLookup(std::vector<Gpu> gpus, std::chrono::milliseconds patience)
    : gpus_(std::move(gpus)),
      reader_({.patience = patience, .of_user = 3 * patience, .patience_with_cpu = 5 * patience}),
      slurm_(gpus_,
             {.processes = processes::all_processes,
              .step_of =
                  [](std::uint32_t tgid) { return processes::cgroup_owner_of(tgid, true).slurm; },
              .environment_of = [this](std::uint32_t tgid) { return environment_of(tgid); }}) {
    if (gpus_.size() <= 1) {
        return;
    }
    if (auto opened = DeviceProgramReader::open()) {
        programs_ = std::move(*opened);
    } else {
        log::warn("cannot read which GPUs the device programs of cgroups allow",
                  {{"reason", opened.error().message}});
    }
}

Result<VisibleGpus> GpuLookup::of(std::uint32_t tgid) {
    if (gpus_.size() <= 1) {
        return VisibleGpus::of_unknown(gpus_);
    }
    GpuSources sources;
    if (programs_) {
        if (auto found = programs_->of(tgid)) {
            sources.programs = std::move(*found);
        }
    }
    auto visible =
        reader_.about(tgid, [&] { return visible_gpus_of(reader_, tgid, gpus_, sources); });
    constexpr std::string_view line = "cannot determine which GPUs a process can use";
    if (const auto more = visible ? std::nullopt : lines_.due(line)) {
        log::warn(line, {{"pid", std::to_string(tgid)},
                         {"reason", visible.error().message},
                         {"more_since_last_line", *more}});
    }
    return visible;
}

Result<std::string> GpuLookup::environment_of(std::uint32_t tgid) {
    return reader_.about(tgid, [&] {
        return reader_.read_text("/proc/" + std::to_string(tgid) + "/environ",
                                 max_environment_bytes + 1);
    });
}

}  // namespace gpusnoop::discovery

#include "exporter/probes/cuda_describe.h"

#include <algorithm>

#include "exporter/base/text.h"
#include "exporter/discovery/proc.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t max_label_bytes = 128;
// For finding out a process's GPUs: everything else waits meanwhile.
constexpr std::chrono::milliseconds patience{50};

}  // namespace

void describe(Process &process, discovery::GpuLookup &gpus) {
    const std::uint32_t tgid = process.key.tgid;
    const bool has_record = process.started != nanoseconds::zero();
    if (!has_record) {
        process.started = discovery::start_time(tgid).value_or(nanoseconds::zero());
    }
    const bool runs = discovery::presence(tgid, process.started) == discovery::Presence::running;
    const auto visible =
        runs ? gpus.of(tgid, patience) : discovery::VisibleGpus::of_unknown(gpus.gpus());
    process.gpu_name = [visible](std::optional<std::uint32_t> ordinal) -> std::string {
        const auto index = ordinal ? visible.host_index(*ordinal) : visible.only();
        return index ? std::to_string(*index) : "unknown";
    };
    if (!runs) {
        return;
    }
    if (!has_record) {
        if (const std::string name = discovery::name_of(tgid); !name.empty()) {
            process.comm = to_valid_utf8(name, max_label_bytes);
        }
    }
    if (const std::string exe = discovery::executable_path(tgid); !exe.empty()) {
        process.exe = to_valid_utf8(exe, max_label_bytes);
    }
    const discovery::ContainerIdentity identity = discovery::container_of(tgid);
    if (!identity.container_id.empty()) {
        process.container = identity.container_id;
        process.pod_uid = identity.pod_uid;
    }
}

void EndedProcesses::look(CudaAggregator &aggregator, nanoseconds now) {
    std::vector<ProcessKey> gone;
    for (const auto &[key, started] : aggregator.running()) {
        if (discovery::presence(key.tgid, started) != discovery::Presence::gone) {
            continue;
        }
        if (std::ranges::find(gone_, key) != gone_.end()) {
            aggregator.assume_ended(key, now);
        } else {
            gone.push_back(key);
        }
    }
    gone_ = std::move(gone);
}

}  // namespace gpusnoop::probes

#include "exporter/probes/cuda/process.h"

#include <cerrno>

#include "exporter/discovery/gpus/gpu_lookup.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::probes {

void describe(Process &process, discovery::GpuLookup &gpus) {
    const bool runs = look_up(process);
    const std::uint32_t tgid = process.key.tgid;
    const auto is_it = [tgid, started = process.started, stack = processes::stack_start_of(tgid)] {
        return processes::presence(tgid, started) == processes::Presence::running &&
               processes::stack_start_of(tgid) == stack;  // no other program after an exec
    };
    const auto look = [&gpus, tgid, runs, is_it]() -> Result<discovery::VisibleGpus> {
        if (!runs || !is_it()) {
            return fail("the process has ended", ESRCH);
        }
        auto visible = gpus.of(tgid);
        return is_it() ? std::move(visible) : fail("the process has ended", ESRCH);
    };
    const auto names = std::make_shared<GpuNames>(
        look().value_or(discovery::VisibleGpus::of_unknown(gpus.gpus())), look);
    process.gpu_name = [names](auto ordinal) { return names->name_of(ordinal); };
}

std::string gpu_of(const Process &process, std::int32_t device) {
    return process.gpu_name(device < 0 ? std::nullopt
                                       : std::optional(static_cast<std::uint32_t>(device)));
}

series::LabelValues labels_of(const Process &process, std::initializer_list<std::string_view> own) {
    series::LabelValues values = process.labels;
    values.insert(values.end(), own.begin(), own.end());
    return values;
}

series::LabelValues gauge_labels_of(const Process &process,
                                    std::initializer_list<std::string_view> own) {
    series::LabelValues values = {process.comm, process.script, process.container,
                                  process.slurm_job_id, std::to_string(process.key.tgid)};
    values.insert(values.end(), own.begin(), own.end());
    return values;
}

std::string GpuNames::name_of(std::optional<std::uint32_t> ordinal) {
    if (!visible_.is_settled() && looks_ < most_looks) {
        look_again();
    }
    const auto index = ordinal ? visible_.host_index(*ordinal) : visible_.only();
    return index ? std::to_string(*index) : "unknown";
}

void GpuNames::look_again() {
    const auto now = now_();
    if (now < next_look_) {
        return;
    }
    next_look_ = now + std::chrono::seconds(1U << looks_);
    if (auto seen = look_()) {
        visible_ = *std::move(seen);
        looks_++;
    } else if (seen.error().code == ESRCH) {
        looks_ = most_looks;
    }
}

}  // namespace gpusnoop::probes

#include "exporter/probes/cuda/describe.h"

#include <cerrno>
#include <memory>

#include "exporter/probes/cuda/gpu_names.h"
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

}  // namespace gpusnoop::probes

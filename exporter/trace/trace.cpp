#include "exporter/trace/trace.h"

#include <time.h>

#include <optional>

#include "exporter/ebpf/handover.h"
#include "exporter/system/machine.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

Result<> run(const Kind &kind, const config::Config &config, const Options &options, int stop_fd) {
    if (const auto enough = allow_many_files(); !enough) {
        return enough;
    }
    const auto features = ebpf::probe_features();
    if (const auto usable = ebpf::check_requirements(features); !usable) {
        return usable;
    }
    std::optional<ebpf::Handover> handover;  // for the probes that the tracer has attached
    Writer writer(options, stop_fd);
    const auto tracer = kind.make({config, features, options, writer});
    auto traced = tracer->start();
    if (traced) {
        traced =
            writer.run({tracer->interval(), text_header(kind.column),
                        [&] { tracer->drain(now_on(CLOCK_REALTIME) - now_on(CLOCK_MONOTONIC)); },
                        [&] { tracer->finish(); }, [&] { return tracer->lost(); }});
    }
    handover.emplace();
    ebpf::hand_over_perf_events();
    return traced;
}

}  // namespace gpusnoop::trace

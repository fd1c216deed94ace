#include <utility>

#include "bench/call_cost/programs.h"
#include "empty.skel.h"
#include "exporter/ebpf/object.h"

namespace gpusnoop::bench {

using ebpf::AttachMode;

namespace {

struct Nothing final : Tracing {
    ebpf::Skeleton<empty_bpf> programs;
    ebpf::UprobeSet probes;  // detached before the programs go
};

}  // namespace

TracingResult trace_with_nothing(AttachMode mode, const Library &library) {
    auto nothing = std::make_unique<Nothing>();
    nothing->programs.reset(empty_bpf::open());
    if (!nothing->programs) {
        return fail_errno("open the empty programs");
    }
    const ebpf::CallPrograms programs =
        ebpf::choose_call_programs(nothing->programs->obj, mode, false);
    if (const int error = empty_bpf::load(nothing->programs.get()); error != 0) {
        return fail_errno("load the empty programs", -error);
    }
    auto probes = attach_to(library, library.traced(), programs);
    if (!probes) {
        return tl::unexpected(probes.error());
    }
    nothing->probes = std::move(*probes);
    return nothing;
}

}  // namespace gpusnoop::bench

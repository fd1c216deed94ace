#include <algorithm>
#include <iterator>
#include <utility>

#include "bench/call_cost/drained.h"
#include "bench/call_cost/programs.h"
#include "exporter/ebpf/object.h"
#include "least.skel.h"

namespace gpusnoop::bench {

using ebpf::AttachMode;

namespace {

struct Least final : Tracing {
    ebpf::Skeleton<least_bpf> programs;
    Drain drain;
    ebpf::UprobeSet probes;
    ebpf::UprobeSet probes_with_stack;

    [[nodiscard]] Result<std::uint64_t> lost() const override {
        return drain.has_records() ? Result<std::uint64_t>(programs.get()->bss->lost)
                                   : fail("the least programs saw no call");
    }
};

struct LeastCounter final : Tracing {
    ebpf::Skeleton<least_bpf> programs;
    ebpf::UprobeSet probes;

    [[nodiscard]] Result<std::uint64_t> lost() const override {
        return programs.get()->bss->counted > 0 ? Result<std::uint64_t>(0)
                                                : fail("the least counter saw no launch");
    }
};

}  // namespace

TracingResult trace_with_least_counter(bool by_shape, const Library &library) {
    auto least = std::make_unique<LeastCounter>();
    least->programs.reset(least_bpf::open());
    if (!least->programs) {
        return fail_errno("open the least programs");
    }
    least_bpf &programs = *least->programs;
    ebpf::load_if(programs.progs.least_session, false);
    ebpf::load_if(programs.progs.least_stack, false);
    if (const int error = least_bpf::load(&programs); error != 0) {
        return fail_errno("load the least programs", -error);
    }
    const bpf_program *counts =
        by_shape ? programs.progs.least_by_shape : programs.progs.least_count;
    auto attached = attach_to(library, {"cuLaunchKernel"}, {AttachMode::multi, counts, nullptr});
    if (!attached) {
        return tl::unexpected(attached.error());
    }
    least->probes = std::move(*attached);
    return least;
}

TracingResult trace_with_least(std::uint64_t record_bytes, bool keeps_stacks,
                               const Library &library) {
    auto least = std::make_unique<Least>();
    least->programs.reset(least_bpf::open());
    if (!least->programs) {
        return fail_errno("open the least programs");
    }
    least_bpf &programs = *least->programs;
    programs.rodata->record_bytes = record_bytes;
    ebpf::expect_session(programs.progs.least_session);
    ebpf::expect_session(programs.progs.least_stack);
    if (const int error = least_bpf::load(&programs); error != 0) {
        return fail_errno("load the least programs", -error);
    }
    if (auto started = least->drain.start({bpf_map__fd(programs.maps.least_events)}); !started) {
        return tl::unexpected(started.error());
    }
    std::vector<std::string> with_stack;
    std::vector<std::string> others;
    std::ranges::partition_copy(
        library.traced(), std::back_inserter(with_stack), std::back_inserter(others),
        [&](const std::string &name) { return keeps_stacks && name == "cudaMalloc"; });
    const auto attach = [&](const bpf_program *program, const std::vector<std::string> &functions,
                            ebpf::UprobeSet &to) -> Result<> {
        if (functions.empty()) {
            return {};
        }
        auto attached = attach_to(library, functions, {AttachMode::session, program, nullptr});
        if (!attached) {
            return tl::unexpected(attached.error());
        }
        to = std::move(*attached);
        return {};
    };
    if (auto done = attach(programs.progs.least_session, others, least->probes); !done) {
        return tl::unexpected(done.error());
    }
    if (auto done = attach(programs.progs.least_stack, with_stack, least->probes_with_stack);
        !done) {
        return tl::unexpected(done.error());
    }
    return least;
}

}  // namespace gpusnoop::bench

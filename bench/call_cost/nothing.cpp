#include <string_view>
#include <utility>

#include "bench/call_cost/programs.h"
#include "empty.skel.h"
#include "exporter/ebpf/object.h"
#include "exporter/ebpf/skeleton.h"
#include "exporter/symbols/elf/elf_file.h"

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
    const auto elf = symbols::ElfFile::open(library.found().file.get());
    if (!elf) {
        return tl::unexpected(elf.error());
    }
    const std::vector<std::string_view> names(library.traced().begin(), library.traced().end());
    const auto places = elf->find_functions(names);
    if (!places) {
        return tl::unexpected(places.error());
    }
    std::vector<ebpf::AttachPoint> points;
    for (const auto &place : *places) {
        points.push_back({place.file_offset, 0});
    }
    auto probes = ebpf::UprobeSet::attach(programs, library.found().file.get(), points);
    if (!probes) {
        return tl::unexpected(probes.error());
    }
    nothing->probes = std::move(*probes);
    return nothing;
}

}  // namespace gpusnoop::bench

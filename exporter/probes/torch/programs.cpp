#include "exporter/probes/torch/programs.h"

#include <bpf/libbpf.h>

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "bpf/lib/python/layout.h"
#include "bpf/torch/torch.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/libraries/library_probe.h"
#include "exporter/symbols/elf/elf_file.h"
#include "torch.skel.h"

namespace gpusnoop::probes {

using ebpf::AttachMode;

struct TorchPrograms::Loaded {
    ebpf::Skeleton<torch_bpf> skeleton;
    std::vector<ebpf::Link> tracepoints;  // detached before the skeleton goes
};

namespace {

struct TorchFunction {
    std::string_view symbol;
    torch_function cookie;
};

// The functions of libc10 that PyTorch's allocators report to, of all versions from PyTorch 1.8 on.
// A library has one or two of them. Sums of bytes are a signed `long` (l) up to PyTorch 2.0, and a
// `size_t` (m) from 2.1 on. PyTorch 1.8 reports no sums. Both kinds of integers are the same in a
// register.
constexpr TorchFunction torch_functions[] = {
    {"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", TORCH_REPORTS_USAGE},
    {"_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE", TORCH_REPORTS_USAGE},
    {"_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE", TORCH_REPORTS_USAGE_ONLY},
    {"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE", TORCH_REPORTS_OUT_OF_MEMORY},
    {"_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE", TORCH_REPORTS_OUT_OF_MEMORY},
};

// Where a table cannot grow.
constexpr std::uint32_t max_blocks_at_once = 65'536;
constexpr std::uint32_t max_python_at_once = 2'048;

void apply_settings(torch_bpf &skeleton, const TorchConfig &config, bool reads_python) {
    auto &maps = skeleton.maps;
    bpf_map__set_max_entries(maps.torch_events, config.ring_bytes);
    ebpf::grow_on_demand(maps.torch_procs);
    ebpf::grow_on_demand(maps.torch_samplings);
    ebpf::grow_on_demand(maps.torch_totals);
    bpf_map__set_max_entries(maps.torch_stacks, config.call_stacks ? config.max_call_stacks : 1);
    if (!config.sampling) {
        bpf_map__set_max_entries(maps.torch_samplings, 1);
        bpf_map__set_max_entries(maps.torch_totals, 1);
    }
    ebpf::size_table(maps.torch_blocks, config.sampling ? config.max_live_allocations : 1,
                     max_blocks_at_once);
    ebpf::size_table(maps.torch_pythons, reads_python ? PYTHON_MAX_PROCESSES : 1,
                     PYTHON_MAX_PROCESSES);
    ebpf::size_table(maps.torch_pystacks, reads_python ? config.max_call_stacks : 1,
                     max_python_at_once);
    skeleton.rodata->keep_stacks = config.call_stacks;
    skeleton.rodata->is_sampling = config.sampling;
    skeleton.rodata->python_stacks = reads_python;
    skeleton.rodata->max_blocks_of_process = bpf_map__max_entries(maps.torch_blocks) / torch_shares;
}

Result<std::vector<ebpf::AttachPoint>> find_points(const discovery::Library &library) {
    const auto elf = symbols::ElfFile::open(library.readable(), library.limits);
    if (!elf) {
        return tl::unexpected(elf.error());
    }
    std::vector<std::string_view> names;
    for (const TorchFunction &function : torch_functions) {
        names.push_back(function.symbol);
    }
    const auto found = elf->find_functions(names);
    if (!found) {
        return tl::unexpected(found.error());
    }
    std::vector<ebpf::AttachPoint> points;
    std::set<std::uint64_t> taken;
    for (const symbols::FoundFunction &place : *found) {
        if (place.probeable && taken.insert(place.file_offset).second) {
            points.push_back({place.file_offset, torch_functions[place.name].cookie, true});
        }
    }
    use_cheapest_entries(*elf, library.readable(), *found, points);
    return points;
}

}  // namespace

TorchPrograms::TorchPrograms(std::unique_ptr<Loaded> loaded, ebpf::CallPrograms calls)
    : loaded_(std::move(loaded)), calls_(calls) {}
TorchPrograms::~TorchPrograms() = default;

int TorchPrograms::events_ring() const {
    return bpf_map__fd(loaded_->skeleton->maps.torch_events);
}
int TorchPrograms::stacks_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.torch_stacks);
}
int TorchPrograms::processes_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.torch_procs);
}
int TorchPrograms::account_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.torch_account);
}
const bpf_object *TorchPrograms::object() const {
    return loaded_->skeleton->obj;
}
ebpf::Runs TorchPrograms::runs() const {
    return ebpf::runs_of(object());
}

void TorchPrograms::set_costs(const ebpf::ProbeCosts &costs) {
    if (const auto known = costs.find(calls_.mode); known != costs.end()) {
        loaded_->skeleton->bss->costs = known->second;
    }
}

TorchKernelTables TorchPrograms::tables() const {
    const auto &maps = loaded_->skeleton->maps;
    return TorchKernelTables({.samplings = bpf_map__fd(maps.torch_samplings),
                              .totals = bpf_map__fd(maps.torch_totals),
                              .blocks = bpf_map__fd(maps.torch_blocks),
                              .max_totals = bpf_map__max_entries(maps.torch_totals),
                              .max_blocks = bpf_map__max_entries(maps.torch_blocks)});
}

PythonTables::Maps TorchPrograms::python_tables() const {
    const auto &maps = loaded_->skeleton->maps;
    const bool has_walk = bpf_program__autoload(loaded_->skeleton->progs.torch_python);
    return {.interpreters = has_walk ? bpf_map__fd(maps.torch_pythons) : -1,
            .stacks = bpf_map__fd(maps.torch_pystacks),
            .max_stacks = bpf_map__max_entries(maps.torch_pystacks)};
}

Result<std::unique_ptr<TorchPrograms>> TorchPrograms::load(const TorchConfig &config,
                                                           const ebpf::Features &features) {
    Error last{"no way to attach to functions works on this machine"};
    for (const AttachMode mode : attach_modes(config.attach, features)) {
        auto programs = load_as(mode, config, config.sampling);
        if (programs) {
            return programs;
        }
        last = programs.error();
        if (!config.sampling) {
            continue;
        }
        programs = load_as(mode, config, false);  // the rest is worth more
        if (programs) {
            log::warn("call sites have no Python functions: this kernel refuses the programs",
                      {{"probe", "torch"}, {"reason", last.message}});
            return programs;
        }
    }
    return tl::unexpected(last);
}

Result<std::unique_ptr<TorchPrograms>> TorchPrograms::load_as(AttachMode mode,
                                                              const TorchConfig &config,
                                                              bool reads_python) {
    auto loaded = std::make_unique<Loaded>();
    loaded->skeleton.reset(torch_bpf::open());
    if (!loaded->skeleton) {
        return fail_errno("open the BPF programs");
    }
    const ebpf::CallPrograms calls = ebpf::choose_call_programs(loaded->skeleton->obj, mode, false);
    auto &programs = loaded->skeleton->progs;
    apply_settings(*loaded->skeleton, config, reads_python);
    ebpf::prepare_tail(programs.torch_python, calls.enter, reads_python);
    int error = torch_bpf::load(loaded->skeleton.get());
    if (error == 0) {
        error = ebpf::set_tail(loaded->skeleton->maps.torch_tails, programs.torch_python);
    }
    if (error != 0) {
        return fail_errno("load the BPF programs (" + std::string(to_string(mode)) + ")", -error);
    }
    for (const bpf_program *program : {programs.torch_exit, programs.torch_exec}) {
        ebpf::Link link(bpf_program__attach(program));
        if (!link) {
            return fail_errno(std::string("attach to the tracepoint of ") +
                              bpf_program__name(program));
        }
        loaded->tracepoints.push_back(std::move(link));
    }
    return std::unique_ptr<TorchPrograms>(new TorchPrograms(std::move(loaded), calls));
}

tl::expected<std::vector<ebpf::AttachPoint>, TorchPrograms::Failure> TorchPrograms::find(
    const discovery::Library &library) {
    auto points = find_points(library);
    if (!points) {
        return tl::unexpected(Failure{"elf", points.error()});
    }
    if (points->empty() && !library.is_program) {
        return tl::unexpected(Failure{
            "no_symbols",
            {"it has none of the functions that are traced: it is older than PyTorch 1.8"}});
    }
    return std::move(*points);
}

tl::expected<ebpf::UprobeSet, TorchPrograms::Failure> TorchPrograms::attach(
    const discovery::Library &library, const std::vector<ebpf::AttachPoint> &points,
    ebpf::UprobeSet kept) const {
    auto set =
        ebpf::UprobeSet::attach(calls_, {library.file.get(), library.id, library.file.kept()},
                                points, {}, std::move(kept), library.note_progress);
    if (!set) {
        return tl::unexpected(Failure{"attach", set.error()});
    }
    if (set->functions() == 0) {
        return tl::unexpected(Failure{
            "attach", {"the kernel allows no probe on the first instruction of its functions"}});
    }
    return std::move(*set);
}

}  // namespace gpusnoop::probes

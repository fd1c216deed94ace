#include "exporter/probes/torch/programs.h"

#include <bpf/libbpf.h>

#include <set>
#include <string_view>
#include <utility>

#include "bpf/torch.h"
#include "exporter/ebpf/attach/link.h"
#include "exporter/ebpf/features.h"
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
ebpf::Runs TorchPrograms::runs() const {
    return ebpf::runs_of(loaded_->skeleton->obj);
}

void TorchPrograms::set_costs(const ebpf::ProbeCosts &costs) {
    if (const auto known = costs.find(calls_.mode); known != costs.end()) {
        loaded_->skeleton->bss->costs = known->second;
    }
}

Result<std::unique_ptr<TorchPrograms>> TorchPrograms::load(const TorchConfig &config,
                                                           const ebpf::Features &features) {
    Error last{"no way to attach to functions works on this machine"};
    for (const AttachMode mode : attach_modes(config.attach, features)) {
        auto programs = load_as(mode, config);
        if (programs) {
            return programs;
        }
        last = programs.error();
    }
    return tl::unexpected(last);
}

Result<std::unique_ptr<TorchPrograms>> TorchPrograms::load_as(AttachMode mode,
                                                              const TorchConfig &config) {
    auto loaded = std::make_unique<Loaded>();
    loaded->skeleton.reset(torch_bpf::open());
    if (!loaded->skeleton) {
        return fail_errno("open the BPF programs");
    }
    const ebpf::CallPrograms calls = ebpf::choose_call_programs(loaded->skeleton->obj, mode, false);
    bpf_map__set_max_entries(loaded->skeleton->maps.torch_events, config.ring_bytes);
    ebpf::grow_on_demand(loaded->skeleton->maps.torch_procs);
    bpf_map__set_max_entries(loaded->skeleton->maps.torch_stacks,
                             config.call_stacks ? config.max_call_stacks : 1);
    loaded->skeleton->rodata->keep_stacks = config.call_stacks;
    if (const int error = torch_bpf::load(loaded->skeleton.get()); error != 0) {
        return fail_errno("load the BPF programs (" + std::string(to_string(mode)) + ")", -error);
    }
    auto &programs = loaded->skeleton->progs;
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

tl::expected<ebpf::UprobeSet, TorchPrograms::Failure> TorchPrograms::attach(
    const discovery::Library &library, ebpf::UprobeSet kept) const {
    const auto points = find_points(library);
    if (!points) {
        return tl::unexpected(Failure{"elf", points.error()});
    }
    if (points->empty()) {
        if (library.is_program) {
            return ebpf::UprobeSet{};
        }
        return tl::unexpected(Failure{
            "no_symbols",
            {"it has none of the functions that are traced: it is older than PyTorch 1.8"}});
    }
    auto set =
        ebpf::UprobeSet::attach(calls_, {library.file.get(), library.id, library.file.kept()},
                                *points, {}, std::move(kept), library.note_progress);
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

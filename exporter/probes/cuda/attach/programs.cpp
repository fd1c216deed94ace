#include "exporter/probes/cuda/attach/programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <set>

#include "bpf/cuda/functions.h"
#include "cuda.skel.h"
#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/probes/cuda/attach/exits.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/frame/libraries/library_probe.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using ebpf::AttachMode;

struct CudaPrograms::Loaded {
    std::optional<CudaPins> pins;
    ebpf::Skeleton<cuda_bpf> skeleton;
    std::vector<Fd> tracepoints;  // links, detached before the skeleton goes
};

namespace {

constexpr std::size_t max_library_bytes = 128;

// Nothing: without pins. Unless the configuration asks for them, the exporter does without.
Result<std::optional<CudaPins>> open_pins(AttachMode mode, const CudaConfig &config) {
    if (config.pin == Pin::never || (config.pin == Pin::automatic && !is_supervised())) {
        return std::optional<CudaPins>();
    }
    auto pins = CudaPins::open(config.pin_path, generation_of(mode, config));
    if (pins) {
        return std::optional(std::move(*pins));
    }
    if (config.pin == Pin::always) {
        return tl::unexpected(pins.error());
    }
    log::info(
        "nothing is pinned: after a restart, the shown memory of running programs is a lower bound",
        {{"probe", "cuda"}, {"reason", pins.error().message}});
    return std::optional<CudaPins>();
}

Result<Fd> attach_to_tracepoint(const bpf_program *program, const CudaPins *pins) {
    const std::string name = std::string("tracepoint_") + bpf_program__name(program);
    if (pins != nullptr) {
        if (auto pinned = pins->pins().get(name)) {
            return pinned;
        }
    }
    const ebpf::Link link(bpf_program__attach(program));
    if (!link) {
        return fail_errno(std::string("attach to the tracepoint of ") + bpf_program__name(program));
    }
    if (pins != nullptr) {
        if (auto pinned = pins->pins().pin(bpf_link__fd(link.get()), name); !pinned) {
            return tl::unexpected(pinned.error());
        }
    }
    Fd own = duplicate(bpf_link__fd(link.get()));
    if (!own) {
        return fail_errno("duplicate a descriptor");
    }
    return own;
}

void log_refused(const discovery::Library &library,
                 const std::vector<symbols::FoundFunction> &found,
                 const std::vector<std::uint64_t> &refused) {
    std::string names;
    for (const symbols::FoundFunction &place : found) {
        if (std::ranges::find(refused, place.file_offset) != refused.end()) {
            names += (names.empty() ? "" : " ") + std::string(cuda_functions()[place.name].symbol);
        }
    }
    if (!names.empty()) {
        log::warn(
            "the kernel allows no probe on the first instruction of these functions, so their "
            "calls are not counted",
            {{"probe", "cuda"},
             {"library", to_valid_utf8(library.name, max_library_bytes)},
             {"functions", names}});
    }
}

// With pins, threads remember numbers of an earlier exporter's programs. It began at an earlier
// time.
std::uint64_t unused_number() {
    return static_cast<std::uint64_t>(now_on(CLOCK_MONOTONIC).count());
}

// Counting has no return, so a session's way to attach is that of `multi`.
ebpf::CallPrograms choose_counting(const bpf_object *object, AttachMode mode, bool wanted) {
    const bool is_perf = mode == AttachMode::perf;
    bpf_program *const multi = ebpf::find_program(object, "count");
    bpf_program *const perf = ebpf::find_program(object, "perf_count");
    ebpf::load_if(multi, wanted && !is_perf);
    ebpf::load_if(perf, wanted && is_perf);
    return {.mode = is_perf ? AttachMode::perf : AttachMode::multi,
            .enter = is_perf ? perf : multi,
            .leave = nullptr};
}

}  // namespace

CudaPrograms::CudaPrograms(std::unique_ptr<Loaded> loaded, ebpf::CallPrograms calls,
                           ebpf::CallPrograms counting)
    : loaded_(std::move(loaded)), calls_(calls), counting_(counting), exchanges_(unused_number()) {}
CudaPrograms::~CudaPrograms() = default;

int CudaPrograms::lifecycle_ring() const {
    return bpf_map__fd(loaded_->skeleton->maps.cuda_lifecycle);
}
int CudaPrograms::allocations_ring() const {
    return bpf_map__fd(loaded_->skeleton->maps.cuda_mem_events);
}
int CudaPrograms::calls_ring() const {
    return bpf_map__fd(loaded_->skeleton->maps.cuda_events);
}
int CudaPrograms::traces_ring() const {
    return bpf_map__fd(loaded_->skeleton->maps.cuda_traces);
}
int CudaPrograms::traces_lost_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.cuda_trace_lost);
}
int CudaPrograms::account_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.cuda_account);
}
int CudaPrograms::threads_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.cuda_threads);
}

int CudaPrograms::sights_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.cuda_sights);
}

int CudaPrograms::detaches_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.cuda_detaches);
}

int CudaPrograms::runtimes_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.cuda_runtimes);
}

void CudaPrograms::begin_exchange(LaunchLinks to) {
    const std::uint64_t way = to == LaunchLinks::ends       ? CUDA_TO_ENDS
                              : to == LaunchLinks::counting ? CUDA_TO_COUNTING
                              : to == LaunchLinks::own      ? CUDA_TO_OWN
                                                            : CUDA_TO_NONE;
    exchanges_++;
    loaded_->skeleton->bss->launch_exchange = exchanges_ * (CUDA_EXCHANGE_WAY + 1) + way;
}

void CudaPrograms::end_exchange() {
    loaded_->skeleton->bss->launch_exchange = exchanges_ * (CUDA_EXCHANGE_WAY + 1);
}

void CudaPrograms::note_other_calls(bool do_so) const {
    loaded_->skeleton->bss->notes_other_calls = do_so;
}

bool CudaPrograms::has_counted() const {
    return loaded_->skeleton->bss->has_counted;
}

Result<> CudaPrograms::share_maps(const CudaConfig &config, CudaShared &shared) const {
    const auto type_of = [](const bpf_program *program) {
        return program == nullptr ? 0
                                  : static_cast<int>(bpf_program__expected_attach_type(program));
    };
    shared.calls.return_type = type_of(calls_.leave == nullptr ? calls_.enter : calls_.leave);
    shared.calls.exit_type = type_of(calls_.exit);
    return probes::share_maps(*loaded_->skeleton, config, shared);
}

CudaTables::Maps CudaPrograms::tables() const {
    const auto &maps = loaded_->skeleton->maps;
    return {bpf_map__fd(maps.cuda_live),
            bpf_map__fd(maps.cuda_procs),
            bpf_map__fd(maps.cuda_stacks),
            bpf_map__fd(maps.cuda_registered),
            bpf_map__fd(maps.cuda_contexts),
            bpf_map__fd(maps.cuda_ended),
            bpf_map__fd(maps.cuda_capturing),
            bpf_map__fd(maps.cuda_launches),
            bpf_program__fd(loaded_->skeleton->progs.cuda_end_map)};
}

PythonTables::Maps CudaPrograms::python_tables() const {
    const auto &maps = loaded_->skeleton->maps;
    const bool has_walk = bpf_program__autoload(loaded_->skeleton->progs.cuda_python);
    return {.interpreters = has_walk ? bpf_map__fd(maps.cuda_pythons) : -1,
            .stacks = bpf_map__fd(maps.cuda_pystacks),
            .max_stacks = bpf_map__max_entries(maps.cuda_pystacks)};
}

void CudaPrograms::set_costs(const ebpf::ProbeCosts &costs) {
    const auto known = costs.find(calls_.mode);
    if (known == costs.end()) {
        return;
    }
    const probe_costs &cost = known->second;
    loaded_->skeleton->bss->costs = cost;
    // A launch by the runtime makes one of the driver, whose return only a session leaves out.
    const std::int64_t endings = calls_.mode == AttachMode::session ? 1 : 2;
    cost_of_launch_ = std::chrono::nanoseconds(2 * std::int64_t{cost.entry} + cost.record +
                                               endings * std::int64_t{cost.ending});
}

Result<std::unique_ptr<CudaPrograms>> CudaPrograms::load(const CudaConfig &config,
                                                         const ebpf::Features &features,
                                                         const CudaTracing *tracing) {
    Error last{"no way to attach to functions works on this machine"};
    const CudaConfig allowed = as_is_harmless(config, features);
    CudaConfig without_python = allowed;
    without_python.python_stacks = false;
    for (const AttachMode mode : attach_modes(config.attach, features)) {
        auto programs = load_as(mode, allowed, tracing);
        if (programs) {
            return programs;
        }
        last = programs.error();
        if (!allowed.python_stacks) {
            continue;
        }
        programs = load_as(mode, without_python, tracing);  // the rest is worth more
        if (programs) {
            log::warn("call sites have no Python functions: this kernel refuses the programs",
                      {{"probe", "cuda"}, {"reason", last.message}});
            return programs;
        }
    }
    return tl::unexpected(last);
}

Result<std::unique_ptr<CudaPrograms>> CudaPrograms::load_as(AttachMode mode,
                                                            const CudaConfig &config,
                                                            const CudaTracing *tracing) {
    auto loaded = std::make_unique<Loaded>();
    loaded->skeleton.reset(cuda_bpf::open());
    if (!loaded->skeleton) {
        return fail_errno("open the BPF programs");
    }
    auto &programs = loaded->skeleton->progs;
    const ebpf::CallPrograms calls = ebpf::choose_call_programs(
        loaded->skeleton->obj, mode, config.endings == ebpf::Endings::exits);
    const ebpf::CallPrograms counting =
        choose_counting(loaded->skeleton->obj, mode, config.max_overhead > 0);
    apply_settings(*loaded->skeleton, config);
    ebpf::prepare_tail(programs.cuda_python, calls.enter, config.python_stacks);
    set_up_tracing(*loaded->skeleton, tracing);
    auto pins_opened = open_pins(mode, config);
    if (!pins_opened) {
        return tl::unexpected(pins_opened.error());
    }
    loaded->pins = std::move(*pins_opened);
    const bool had_tables = loaded->pins && !loaded->pins->pins().names("map_cuda_").empty();
    if (loaded->pins) {
        pin_maps(*loaded->skeleton, loaded->pins->pins());
    }
    if (const int error = load_with_tail(*loaded->skeleton); error != 0) {
        const auto failed =
            fail_errno("load the BPF programs (" + std::string(to_string(mode)) + ")", -error);
        // Pins that another program made, or that are damaged.
        if (had_tables) {
            log::warn(
                "removed pins that do not fit these programs: their live allocations are lost",
                {{"pins", config.pin_path}, {"reason", failed.value().message}});
            loaded->pins->pins().remove_all();
            loaded.reset();  // the lock, too
            return load_as(mode, config, tracing);
        }
        return failed;
    }
    loaded->skeleton->bss->unloads = unused_number();
    const CudaPins *pins = loaded->pins ? &*loaded->pins : nullptr;
    if (pins != nullptr) {
        pins->pins().note_all();
    }
    // In this order: the first two read what the others forget.
    for (const bpf_program *program :
         {programs.cuda_times_exit, programs.cuda_times_exec, programs.cuda_exit,
          programs.cuda_exec, programs.cuda_signal}) {
        if (!bpf_program__autoload(program)) {
            continue;
        }
        auto link = attach_to_tracepoint(program, pins);
        if (!link) {
            return tl::unexpected(link.error());
        }
        loaded->tracepoints.push_back(std::move(*link));
    }
    return std::unique_ptr<CudaPrograms>(new CudaPrograms(std::move(loaded), calls, counting));
}

tl::expected<CudaPrograms::Places, CudaPrograms::Failure> CudaPrograms::find(
    const discovery::Library &library) const {
    const auto elf = symbols::ElfFile::open(library.readable(), library.limits);
    if (!elf) {
        return tl::unexpected(Failure{"elf", elf.error()});
    }
    std::vector<std::string_view> names;
    for (const CudaFunction &function : cuda_functions()) {
        names.push_back(function.symbol);
    }
    auto found = elf->find_functions(names);
    if (!found) {
        return tl::unexpected(Failure{"elf", found.error()});
    }
    Places places{.points = {}, .exits = {}, .functions = std::move(*found)};
    std::set<std::uint64_t> taken = forwarding_functions(*elf, library, places.functions);
    for (const symbols::FoundFunction &place : places.functions) {
        const CudaFunction &function = cuda_functions()[place.name];
        if (place.probeable && taken.insert(place.file_offset).second) {
            places.points.push_back(
                {place.file_offset,
                 function.cookie | (library.is_program ? CUDA_STATIC_RUNTIME : 0U),
                 function.entry_only});
        }
    }
    if (places.points.empty() && !library.is_program) {
        return tl::unexpected(
            Failure{no_symbols, {"it has none of the functions that are traced"}});
    }
    if (calls_.exit != nullptr && !places.points.empty()) {
        places.exits = see_ends_at_exits(*elf, library, places.functions, places.points);
    }
    use_cheapest_entries(*elf, library.readable(), places.functions, places.points);
    // The kernel attaches to one place after the other, while programs run: of an allocation that
    // is seen, the free must be seen, too.
    std::ranges::stable_partition(
        places.points, [](const ebpf::AttachPoint &point) { return !allocates(point.cookie); });
    return places;
}

tl::expected<ebpf::UprobeSet, CudaPrograms::Failure> CudaPrograms::attach(
    const discovery::Library &library, const Places &places, ebpf::UprobeSet kept) const {
    auto set = ebpf::UprobeSet::attach(
        calls_, {library.file.get(), library.id, library.file.kept()}, places.points, places.exits,
        std::move(kept), library.note_progress);
    if (!set) {
        return tl::unexpected(Failure{"attach", set.error()});
    }
    if (!set->refused().exits.empty()) {
        return tl::unexpected(Failure{
            "attach", {"the kernel allows no probe on an instruction that leaves a function"}});
    }
    log_refused(library, places.functions, set->refused().entries);
    return std::move(*set);
}

Result<ebpf::UprobeSet> CudaPrograms::attach_again(const ebpf::ProbedFile &file,
                                                   const Places &places,
                                                   std::optional<std::uint32_t> tgid) const {
    ebpf::CallPrograms calls = calls_;
    calls.only_tgid = tgid ? static_cast<int>(*tgid) : -1;
    return ebpf::UprobeSet::attach(calls, file, places.points, places.exits);
}

Result<ebpf::UprobeSet> CudaPrograms::attach_counting(const ebpf::ProbedFile &file,
                                                      std::vector<ebpf::AttachPoint> launches,
                                                      std::optional<std::uint32_t> tgid) const {
    ebpf::CallPrograms programs = counting_;
    programs.only_tgid = tgid ? static_cast<int>(*tgid) : -1;
    for (ebpf::AttachPoint &launch : launches) {
        launch.cookie &= ~CUDA_EXITS;
        launch.cookie |= CUDA_AT_ENTRY | (tgid ? CUDA_OF_ONE : 0);
        launch.entry_only = true;
    }
    return ebpf::UprobeSet::attach(programs, file, launches);
}

CudaPins *CudaPrograms::pins() const {
    return loaded_->pins ? &*loaded_->pins : nullptr;
}

const bpf_object *CudaPrograms::object() const {
    return loaded_->skeleton->obj;
}

ebpf::Runs CudaPrograms::runs() const {
    return ebpf::runs_of(object());
}

}  // namespace gpusnoop::probes

#include "exporter/probes/functions/attach/programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bpf/functions/functions.h"
#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/probes/functions/limit/dear_functions.h"
#include "exporter/system/machine.h"
#include "functions.skel.h"

namespace gpusnoop::probes {

using ebpf::AttachMode;

struct FunctionPrograms::Loaded {
    ebpf::Skeleton<functions_bpf> skeleton;
    std::vector<ebpf::Link> tracepoints;  // detached before the skeleton goes
};

namespace {

void set_up_tracing(functions_bpf &skeleton, const FunctionTracing &tracing) {
    bpf_map__set_max_entries(skeleton.maps.func_events, tracing.ring_bytes);
    bpf_map__set_max_entries(skeleton.maps.func_slow, tracing.ring_bytes);
    auto &settings = *skeleton.rodata;
    settings.max_calls_per_second = 0;
    settings.only_slow = tracing.is_by_duration();
    settings.traced_pid_count =
        static_cast<std::uint32_t>(std::min<std::size_t>(tracing.pids.size(), TRACED_PIDS));
    std::copy_n(tracing.pids.begin(), settings.traced_pid_count, settings.traced_pids);
}

// The duration from which on a call's details are recorded; 0: never.
std::uint64_t slow_from_ns(const FunctionPrograms::Details &details,
                           const FunctionOptions &options) {
    if (details.tracing != nullptr) {
        const std::uint64_t wanted = details.tracing->wanted_from_ns(options);
        return wanted == 0 && details.tracing->stacks ? 1 : wanted;
    }
    return details.slow_calls && options.slow_threshold
               ? static_cast<std::uint64_t>(options.slow_threshold->count())
               : 0;
}

std::uint64_t cookie_of(const SelectedFunction &function, std::uint32_t number, bool is_traced) {
    std::uint64_t cookie = number;
    switch (function.ending) {
        case ExitStrategy::return_probe:
            break;
        case ExitStrategy::exits:
            cookie |= FUNC_EXITS | (function.jumps_to_entry ? FUNC_JUMPS_TO_ENTRY : 0);
            break;
        case ExitStrategy::none:
            cookie |= FUNC_ENTRY_ONLY;
            break;
    }
    if (!function.begins.empty()) {
        cookie |= FUNC_MARKED;
    }
    const auto nccl = nccl_function(function.symbol);
    if (nccl && function.ending != ExitStrategy::none) {
        // A trace has the entries that it wants.
        cookie |= cookie_flags(*nccl) & ~(is_traced ? FUNC_SPLITS : 0);
    }
    return cookie;
}

// The ends first, as UprobeSet attaches in this order: an end without a beginning is harmless.
// Their results are not known, as those of tail calls.
void add_marks(const SelectedFunction &function, std::uint64_t cookie,
               std::vector<ebpf::AttachPoint> &points) {
    for (const symbols::UsdtPlace &place : function.ends) {
        points.push_back({.file_offset = place.file_offset,
                          .cookie = cookie | FUNC_AT_TAIL_CALL,
                          .semaphore = place.semaphore});
    }
    for (const symbols::UsdtPlace &place : function.begins) {
        points.push_back({.file_offset = place.file_offset,
                          .cookie = cookie | FUNC_BEGINS,
                          .semaphore = place.semaphore});
    }
}

bool has_any(const SelectedFunction &function, const std::vector<std::uint64_t> &places) {
    const auto is_one = [&](std::uint64_t at) {
        return std::ranges::find(places, at) != places.end();
    };
    return std::ranges::any_of(function.exits, is_one, &symbols::FunctionExit::address) ||
           std::ranges::any_of(function.begins, is_one, &symbols::UsdtPlace::file_offset) ||
           std::ranges::any_of(function.ends, is_one, &symbols::UsdtPlace::file_offset);
}

}  // namespace

FunctionInfo shown_as(const std::string &library, const SelectedFunction &function,
                      bool entry_only) {
    FunctionOptions options = *function.options;
    options.entry_only = entry_only;
    const auto nccl = entry_only ? std::nullopt : nccl_function(function.symbol);
    return {to_valid_utf8(library, max_label_bytes), function.group, function.name,
            std::move(options), nccl};
}

FunctionPrograms::FunctionPrograms(std::unique_ptr<Loaded> loaded, ebpf::CallPrograms calls,
                                   Details details)
    : loaded_(std::move(loaded)), calls_(calls), details_(details) {}
FunctionPrograms::~FunctionPrograms() = default;

int FunctionPrograms::lifecycle_ring() const {
    return bpf_map__fd(loaded_->skeleton->maps.func_lifecycle);
}
int FunctionPrograms::calls_ring() const {
    return bpf_map__fd(loaded_->skeleton->maps.func_events);
}
int FunctionPrograms::slow_ring() const {
    return bpf_map__fd(loaded_->skeleton->maps.func_slow);
}
std::uint64_t FunctionPrograms::slow_details_lost() const {
    return __atomic_load_n(&loaded_->skeleton->bss->slow_details_lost, __ATOMIC_RELAXED);
}
std::uint64_t FunctionPrograms::entries_lost() const {
    return __atomic_load_n(&loaded_->skeleton->bss->entries_lost, __ATOMIC_RELAXED);
}
int FunctionPrograms::account_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.func_account);
}
int FunctionPrograms::processes_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.func_procs);
}
int FunctionPrograms::threads_map() const {
    return bpf_map__fd(loaded_->skeleton->maps.func_threads);
}
const bpf_object *FunctionPrograms::object() const {
    return loaded_->skeleton->obj;
}
ebpf::Runs FunctionPrograms::runs() const {
    return ebpf::runs_of(object());
}

void FunctionPrograms::set_costs(const ebpf::ProbeCosts &costs) {
    if (const auto known = costs.find(calls_.mode); known != costs.end()) {
        loaded_->skeleton->bss->costs = known->second;
    }
}

std::chrono::nanoseconds FunctionPrograms::cost_of_call(const AttachedFunction &function) const {
    const probe_costs &costs = loaded_->skeleton->bss->costs;
    std::uint64_t ns = costs.record;
    ns += function.function.entry_probe.is_expensive ? costs.stepped_entry : costs.entry;
    if (!function.entry_only) {
        ns += function.function.ending == ExitStrategy::return_probe ? costs.ending
                                                                     : costs.stepped_entry;
    }
    return std::chrono::nanoseconds(ns);
}

Result<std::unique_ptr<FunctionPrograms>> FunctionPrograms::load(const FunctionsConfig &config,
                                                                 Details details,
                                                                 const ebpf::Features &features) {
    Error last{"no way to attach to functions works on this machine"};
    for (const AttachMode mode : attach_modes(config.attach, features)) {
        auto programs = load_as(mode, config, details);
        if (programs) {
            return programs;
        }
        last = programs.error();
    }
    return tl::unexpected(last);
}

Result<std::unique_ptr<FunctionPrograms>> FunctionPrograms::load_as(AttachMode mode,
                                                                    const FunctionsConfig &config,
                                                                    Details details) {
    auto loaded = std::make_unique<Loaded>();
    loaded->skeleton.reset(functions_bpf::open());
    if (!loaded->skeleton) {
        return fail_errno("open the BPF programs");
    }
    auto &programs = loaded->skeleton->progs;
    const ebpf::CallPrograms calls = ebpf::choose_call_programs(loaded->skeleton->obj, mode, true);
    bpf_map__set_max_entries(loaded->skeleton->maps.func_events, config.ring_bytes);
    bpf_map__set_max_entries(loaded->skeleton->maps.func_slow, config.slow_calls.ring_bytes);
    ebpf::grow_on_demand(loaded->skeleton->maps.func_procs);
    loaded->skeleton->rodata->max_calls_per_second = config.max_calls_per_second;
    loaded->skeleton->rodata->send_entries = details.entries;
    loaded->skeleton->rodata->unreturned_after_ns =
        static_cast<std::uint64_t>(details.unreturned_after.count());
    if (details.tracing != nullptr) {
        set_up_tracing(*loaded->skeleton.get(), *details.tracing);
    }
    if (const int error = functions_bpf::load(loaded->skeleton.get()); error != 0) {
        return fail_errno("load the BPF programs (" + std::string(to_string(mode)) + ")", -error);
    }
    for (const bpf_program *program :
         {programs.func_exit, programs.func_exec, programs.func_signal}) {
        ebpf::Link link(bpf_program__attach(program));
        if (!link) {
            return fail_errno(std::string("attach to the tracepoint of ") +
                              bpf_program__name(program));
        }
        loaded->tracepoints.push_back(std::move(link));
    }
    return std::unique_ptr<FunctionPrograms>(
        new FunctionPrograms(std::move(loaded), calls, details));
}

Result<FunctionLink> FunctionPrograms::attach(const discovery::Library &library,
                                              const std::vector<SelectedFunction> &functions,
                                              FunctionIds &table, bool is_muted) {
    auto link = attach_all(library, functions, {}, table, is_muted);
    if (!link || link->probes.refused().exits.empty()) {
        return link;
    }
    const std::vector<std::uint64_t> refused = link->probes.refused().exits;
    std::set<std::uint64_t> without_exits;
    std::string names;
    for (const SelectedFunction &function : functions) {
        if (has_any(function, refused)) {
            without_exits.insert(function.entry);
            names += (names.empty() ? "" : " ") + function.name;
        }
    }
    log::warn(
        "the kernel allows no probe on an instruction that leaves these functions, so their calls "
        "are counted at entry only",
        {{"probe", "functions"},
         {"library", to_valid_utf8(library.name, max_label_bytes)},
         {"functions", names}});
    return attach_all(library, functions, without_exits, table, is_muted);
}

void FunctionPrograms::set_options(std::uint32_t number, const FunctionInfo &function) const {
    const FunctionOptions &options = function.options;
    func_options value{.slow_ns = slow_from_ns(details_, options), .flags = 0, .pointer = 0};
    if (function.nccl) {
        value.flags = option_flags(*function.nccl);
        value.pointer = function.nccl->pointer;
    } else if (details_.all_arguments && !options.arguments.empty()) {
        value.flags = FUNC_SENDS_ARGUMENTS;
    }
    if (number >= FUNC_MAX_FUNCTIONS) {
        if (value.slow_ns != 0 || value.flags != 0) {
            log::warn(
                "too many functions: slow calls of this one are shown without arguments and stack",
                {{"probe", "functions"}, {"most", FUNC_MAX_FUNCTIONS}, {"number", number}});
        }
        return;
    }
    const int map = bpf_map__fd(loaded_->skeleton->maps.func_options);
    if (bpf_map_update_elem(map, &number, &value, BPF_ANY) != 0) {
        log::warn("cannot update function options in the BPF map",
                  {{"probe", "functions"}, {"reason", std::strerror(errno)}});
    }
}

Result<FunctionLink> FunctionPrograms::attach_all(const discovery::Library &library,
                                                  const std::vector<SelectedFunction> &functions,
                                                  const std::set<std::uint64_t> &without_exits,
                                                  FunctionIds &table, bool is_muted) {
    FunctionLink link;
    std::vector<ebpf::AttachPoint> entries;
    std::vector<ebpf::AttachPoint> exits;
    bool are_muted = is_muted;
    for (const SelectedFunction &function : functions) {
        SelectedFunction attached = function;
        if (!function.begins.empty() && without_exits.contains(function.entry)) {
            link.refused.push_back(function.name);
            continue;
        }
        if (without_exits.contains(attached.entry)) {
            attached.ending = ExitStrategy::none;
            attached.exits.clear();
        }
        const bool entry_only = attached.ending == ExitStrategy::none;
        const FunctionInfo shown = shown_as(library.name, function, entry_only);
        const std::uint32_t number = table.add(shown, now_on(CLOCK_MONOTONIC));
        mute(number, is_muted);
        are_muted = are_muted && can_mute(number);
        set_options(number, shown);
        const std::uint64_t cookie = cookie_of(attached, number, details_.tracing != nullptr);
        if (function.begins.empty()) {
            entries.push_back({attached.entry_probe.file_offset, cookie,
                               attached.ending != ExitStrategy::return_probe,
                               attached.entry_probe.is_expensive});
        } else {
            add_marks(function, cookie, exits);
        }
        for (const symbols::FunctionExit &exit : attached.exits) {
            const bool returns = exit.kind == symbols::ExitKind::return_;
            exits.push_back({exit.address, cookie | (returns ? 0 : FUNC_AT_TAIL_CALL)});
        }
        link.places.push_back({.function = function,
                               .number = number,
                               .entry_only = entry_only,
                               .can_pause = !is_always_observed(function.symbol)});
    }
    auto probes =
        is_muted && !are_muted
            ? fail("too many functions are attached to")
            : ebpf::UprobeSet::attach(calls_, {library.file.get(), library.id, library.file.kept()},
                                      entries, exits, {}, library.note_progress);
    const bool is_attached = probes && probes->refused().exits.empty();
    std::vector<FunctionIds::Change> unused;
    std::erase_if(link.places, [&](const AttachedFunction &place) {
        const bool is_refused =
            is_attached &&
            std::ranges::find(probes->refused().entries, place.function.entry_probe.file_offset) !=
                probes->refused().entries.end();
        if (is_refused) {
            link.refused.push_back(place.function.name);
        }
        if (is_refused || !is_attached) {
            mute(place.number, false);
            unused.push_back({place.number, nullptr, true, false});
        }
        return is_refused || !is_attached;
    });
    table.change(std::move(unused));
    if (!probes) {
        return tl::unexpected(probes.error());
    }
    link.probes = std::move(*probes);
    return link;
}

bool FunctionPrograms::can_mute(std::uint32_t number) {
    return number < FUNC_MUTABLE;
}

void FunctionPrograms::mute(std::uint32_t number, bool on) {
    if (!can_mute(number)) {
        return;  // its records are sent, but do not count
    }
    const std::lock_guard lock(mute_mutex_);
    auto *const bss = loaded_->skeleton->bss;
    if ((bss->muted[number] != 0) != on) {
        bss->muted[number] = on ? 1 : 0;
        muted_ = on ? muted_ + 1 : muted_ - 1;
        bss->any_muted = muted_ > 0;
    }
}

}  // namespace gpusnoop::probes

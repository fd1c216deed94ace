#include "exporter/probes/cuda/out_of_memory/out_of_memory.h"

#include <algorithm>
#include <utility>

#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/memory/call_sites.h"
#include "exporter/probes/cuda/memory/counters.h"
#include "exporter/probes/cuda/out_of_memory/state.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// Refusals that follow the last one within this are of the same event, but one that goes on is
// another event each minute.
constexpr std::uint64_t same_event_ns = 10 * oom_second_ns;
constexpr std::uint64_t longest_event_ns = 60 * oom_second_ns;
// PyTorch refuses when cudaMalloc has failed for the last time.
constexpr std::uint64_t torch_refuses_within_ns = 2 * oom_second_ns;
// It reads how much is free before it does.
constexpr std::uint64_t torch_reads_within_ns = oom_second_ns / 10;

constexpr std::size_t most_pending_threads = 64;
constexpr std::size_t most_sites = 10;
constexpr std::uint32_t looks_per_second = 100;
// A thread that tries again and again is looked at only so often.
constexpr std::uint64_t looks_of_pending = 8;
constexpr std::uint64_t between_looks_ns = oom_second_ns / 10;

nanoseconds realtime_of(std::uint64_t ns) {
    return now_on(CLOCK_REALTIME) - (now_on(CLOCK_MONOTONIC) - monotonic_time(ns));
}

// Null: not one that explains anything to a user.
const CudaFunction *refusing_function(const cuda_record &head) {
    const std::size_t number = head.function & ~unsigned{CUDA_FUNCTION_FLAGS};
    if (head.result != CUDA_OUT_OF_MEMORY || number >= cuda_functions().size()) {
        return nullptr;
    }
    const CudaFunction &function = cuda_functions()[number];
    return function.api != CudaApi::cupti && function.shows_errors ? &function : nullptr;
}

// By their names; sites with one name are one.
std::vector<HeldAtSite> named(const Process &process, const SiteBytes &sites) {
    std::vector<HeldAtSite> all;
    for (const auto &[site, bytes] : sites) {
        const std::string &label = CallSites::name_of(process, site).label;
        const auto known = std::ranges::find(all, label, &HeldAtSite::site);
        if (known == all.end()) {
            all.push_back({label, bytes});
        } else {
            known->bytes += bytes;
        }
    }
    std::ranges::stable_sort(all, std::greater(), &HeldAtSite::bytes);
    all.resize(std::min(all.size(), most_sites));
    return all;
}

}  // namespace

CudaOutOfMemory::CudaOutOfMemory(series::FamilySet &families, const CudaProcessTable &processes,
                                 const std::vector<discovery::Gpu> &gpus, Callbacks callbacks)
    : family_(make_out_of_memory_family(families)),
      processes_(processes),
      callbacks_(std::move(callbacks)),
      looks_(looks_per_second) {
    for (const discovery::Gpu &gpu : gpus) {
        if (gpu.mig) {
            divided_.insert(std::to_string(gpu.index));
        }
    }
}

void CudaOutOfMemory::started(Process &process) {
    add_state<State>(process);
}

bool CudaOutOfMemory::is_done_with(const Process &process) {
    return state_of<State>(process).pending.empty();
}

// ---- records ----

void CudaOutOfMemory::note_change(Process &process, const cuda_record &head) {
    state_of<State>(process).changed_ns[device_of(process, head.device)] = head.ended_ns;
}

void CudaOutOfMemory::apply(Process &process, const cuda_failed_record &record) {
    // A failure to pin memory is not the GPU's.
    const bool is_hosts = record.kind == MEMORY_pinned_host || record.kind == MEMORY_vmm_host;
    if (!is_hosts && refusing_function(record.head) != nullptr) {
        refused(process, record);
    }
}

CudaOutOfMemory::Pending &CudaOutOfMemory::pending_of(Process &process, std::uint32_t tid,
                                                      std::uint64_t at_ns) {
    const auto [pending, is_new] = state_of<State>(process).pending.try_emplace(tid);
    if (is_new) {
        pending_++;
        pending->second.first_ns = at_ns;
    }
    return pending->second;
}

bool CudaOutOfMemory::may_look(Process &process, std::uint64_t at_ns) {
    return state_of<State>(process).looks.allow(monotonic_time(at_ns)) &&
           looks_.allow(monotonic_time(at_ns));
}

void CudaOutOfMemory::refused(Process &process, const cuda_failed_record &record) {
    const auto &all = state_of<State>(process).pending;
    if (all.size() >= most_pending_threads && !all.contains(record.tid)) {
        return;  // the refusals of the others are the same event
    }
    const std::uint64_t at_ns = record.head.ended_ns;
    Pending &pending = pending_of(process, record.tid, at_ns);
    if (pending.repaired_ns != 0) {
        pending = Pending();
        pending.first_ns = at_ns;
    }
    pending.failed++;
    if (pending.refused > 0) {
        return;  // PyTorch has said more
    }
    pending.last_ns = at_ns;
    const bool is_due =
        pending.failed <= looks_of_pending || at_ns - pending.looked_ns >= between_looks_ns;
    const bool looks = is_due && may_look(process, at_ns);
    if (pending.failed > 1 && !looks) {
        return;  // what was seen before is better than nothing
    }
    pending.device = device_of(process, record.head.device);
    OutOfMemory &event = pending.event;
    event.tid = record.tid;
    event.function = refusing_function(record.head)->name;
    event.requested.reset();
    event.kind = {};
    event.may_be_piece = false;
    if (record.kind < MEMORY_KIND_COUNT) {
        event.requested = record.bytes;
        event.kind = memory_kind_names.at(record.kind);
        event.may_be_piece = record.kind == MEMORY_vmm;
        pending.site = {record.stack, record.caller, record.python};
        callbacks_.use_site(process, pending.site);
    }
    look(process, pending, looks);
}

// Not if PyTorch has refused before: that is known a little later.
void CudaOutOfMemory::apply(Process &process, const cuda_repaired_record &record) {
    auto &all = state_of<State>(process).pending;
    const auto pending = all.find(record.tid);
    if (pending != all.end() && pending->second.refused == 0) {
        pending->second.repaired_ns = record.head.ended_ns;
    }
}

// The program reads them when it is refused, before it frees anything; but PyTorch has then given
// back the pieces that it got of a request.
void CudaOutOfMemory::apply(Process &process, const cuda_free_memory_record &record) {
    auto &state = state_of<State>(process);
    const std::int32_t device = device_of(process, record.head.device);
    const State::Figures figures{.free = record.free,
                                 .total = record.total,
                                 .at_ns = record.head.ended_ns,
                                 .held = held_on(process, device)};
    state.figures[device] = figures;
    for (auto &[tid, pending] : state.pending) {
        MemoryFigures seen = figures.seen_from(pending.last_ns);
        if (pending.device != device || !seen.is_near() ||
            std::exchange(pending.has_later_figures, true)) {
            continue;
        }
        if (pending.event.may_be_piece) {
            look(process, pending, true);
            pending.has_later_figures = true;
            continue;
        }
        seen.is_outdated = figures.differ_from(pending.event.asker.on_gpu()) ||
                           others_changed(process, pending.event, pending.last_ns);
        pending.event.memory = seen;
    }
}

void CudaOutOfMemory::on_torch(Process &process, const TorchRefusal &refusal) {
    auto &state = state_of<State>(process);
    const std::int32_t device = device_of(process, refusal.device);
    const auto found = std::ranges::find_if(state.pending, [&](const auto &entry) {
        const Pending &pending = entry.second;
        return (pending.device == device || pending.device < 0) &&
               (pending.repaired_ns == 0 || pending.repaired_ns > refusal.at_ns) &&
               refusal.at_ns + repaired_within_ns >= pending.last_ns &&
               refusal.at_ns <= pending.last_ns + torch_refuses_within_ns;
    });
    constexpr std::uint32_t no_thread = 1U << 31U;
    Pending &pending =
        found != state.pending.end()
            ? found->second
            : pending_of(process, no_thread | static_cast<std::uint32_t>(device), refusal.at_ns);
    pending.repaired_ns = 0;
    const bool is_new = pending.failed == 0 && pending.refused == 0;
    if (is_new) {
        pending.last_ns = refusal.at_ns;
    }
    if (is_new || pending.device != device) {
        pending.device = device;
        look(process, pending, may_look(process, refusal.at_ns));
    }
    pending.refused += refusal.count;
    if (pending.refused > refusal.count) {
        return;
    }
    OutOfMemory &event = pending.event;
    event.requested = refusal.bytes;
    event.torch = {refusal.allocated, refusal.reserved};
    if (event.kind.empty()) {
        event.kind = memory_kind_names[MEMORY_device];
    }
    // It read them just before. The program may have freed memory since.
    if (const auto own = state.figures.find(pending.device);
        own != state.figures.end() && own->second.at_ns <= refusal.at_ns &&
        refusal.at_ns - own->second.at_ns <= torch_reads_within_ns) {
        event.memory = own->second.seen_from(pending.last_ns);
        pending.has_later_figures = true;
    }
}

// ---- events ----

void CudaOutOfMemory::settle(nanoseconds until) {
    if (pending_ == 0) {
        return;
    }
    const auto until_ns = static_cast<std::uint64_t>(until.count());
    processes_.for_each([&](Process &process) {
        auto &all = state_of<State>(process).pending;
        std::vector<Pending> due;
        for (auto pending = all.begin(); pending != all.end();) {
            if (!pending->second.is_over(until_ns)) {
                ++pending;
                continue;
            }
            if (pending->second.repaired_ns == 0) {
                due.push_back(std::move(pending->second));
            }
            pending = all.erase(pending);
            pending_--;
        }
        // More is known of the first ones.
        std::ranges::stable_sort(due, {}, &Pending::first_ns);
        for (const Pending &pending : due) {
            finish(process, pending);
        }
    });
}

void CudaOutOfMemory::finish(Process &process, const Pending &pending) {
    OutOfMemory event = pending.event;
    event.count = pending.refused > 0 ? pending.refused : pending.failed;
    event.last = realtime_of(pending.last_ns);
    auto &last = state_of<State>(process).last;
    if (const auto before = last.find(pending.device);
        before != last.end() && pending.first_ns < before->second.last_ns + same_event_ns &&
        pending.first_ns < before->second.first_ns + longest_event_ns) {
        before->second.last_ns = std::max(before->second.last_ns, pending.last_ns);
        history_.add_to(before->second.number, event.count, event.last);
        return;
    }
    event.at = realtime_of(pending.first_ns);
    const SiteName &name = CallSites::name_of(process, pending.site);
    event.site = name.label;
    event.frames = frames_of(name.stack);
    event.sites = named(process, pending.sites);
    event.verdict = judge(event);
    event.sentence = oom_sentence(event);
    family_.add(
        family_.slot(process.owner, labels_of(process, {event.gpu, to_string(event.verdict)})), 1);
    callbacks_.on_event(event);
    last[pending.device] = {history_.add(std::move(event)), pending.first_ns, pending.last_ns};
}

}  // namespace gpusnoop::probes

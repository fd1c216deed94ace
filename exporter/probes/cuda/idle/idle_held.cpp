#include "exporter/probes/cuda/idle/idle_held.h"

#include <string_view>

#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/memory/held_memory.h"
#include "exporter/probes/cuda/memory/memory_peaks.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

// Shorter ones belong to the work: between two steps of a training, or two requests.
constexpr nanoseconds shortest_idle = std::chrono::minutes(1);
constexpr nanoseconds between_looks = std::chrono::seconds(10);
// Of the last second not all is known: records are on their way, counted launches are read a few
// times a second, and calls that began in it are not listed.
constexpr nanoseconds unsettled = std::chrono::seconds(1);

// At most the time of its end: that is never before the clock's beginning.
nanoseconds duration_of(const cuda_record &head) {
    return nanoseconds(static_cast<std::int64_t>(
        std::min<std::uint64_t>({head.duration_ns, head.ended_ns, INT64_MAX})));
}

nanoseconds since_of(const Process &process) {
    return nanoseconds(static_cast<std::int64_t>(process.key.since_ns));
}

// The places of the process's program.
void for_places_of(const Process &process, auto &places, auto &&use) {
    for (auto place = places.lower_bound({process.owner, ""});
         place != places.end() && place->first.first == process.owner; ++place) {
        use(place->first.second, place->second);
    }
}

}  // namespace

struct CudaIdleHeld::State final : PartState {
    static constexpr Part part = Part::idle;

    GpuWork work;
    nanoseconds unobserved{};  // for how long its launches were not counted, in all
    nanoseconds grew_until{};  // when that was last found to have grown
    bool is_open = false;      // a call was under way at the last look for them
    nanoseconds open_until{};  // when the last one had ended
};

CudaIdleHeld::CudaIdleHeld(series::FamilySet &families, const CudaProcessTable &processes,
                           const CudaCallbacks &callbacks, nanoseconds started)
    : family_(make_idle_family(families)),
      processes_(processes),
      callbacks_(callbacks),
      started_(started),
      tidied_(started),
      looked_(started) {}

void CudaIdleHeld::started(Process &process) {
    add_state<State>(process);
}

void CudaIdleHeld::on_call(Process &process, const cuda_record &head) {
    auto &state = state_of<State>(process);
    const std::int32_t device = device_of(process, head.device);
    switch (head.type) {
        case CUDA_RECORD_LAUNCH:
        case CUDA_RECORD_GRAPH:
            return state.work.launched(device, ended_at(head));
        case CUDA_RECORD_BATCH:
        case CUDA_RECORD_SET:
            return state.work.copied(device, ended_at(head));
        case CUDA_RECORD_WAIT:
            if (duration_of(head) >= unsettled) {  // a program may make short ones all the time
                state.open_until = std::max(state.open_until, ended_at(head));
            }
            return state.work.waited(device, ended_at(head) - duration_of(head));
        default:
            return;
    }
}

// A synchronous copy to the host is done when it returns, and so is what was submitted before it.
// One to the device can return earlier.
void CudaIdleHeld::on_copy(Process &process, const cuda_copy_record &record) {
    GpuWork &work = state_of<State>(process).work;
    const std::int32_t device = device_of(process, record.head.device);
    work.copied(device, ended_at(record.head));
    if (record.is_async == 0 && record.kind == COPY_D2H) {
        work.waited(device, ended_at(record.head) - duration_of(record.head));
    }
}

void CudaIdleHeld::on_counted(Process &process, std::int32_t device) {
    state_of<State>(process).work.launched_lately(device_of(process, device));
}

void CudaIdleHeld::tidy(nanoseconds now) {
    processes_.for_each(
        [&](Process &process) { state_of<State>(process).work.settle(tidied_ - unsettled, now); });
    tidied_ = now;
    if (now - looked_ >= between_looks) {
        looked_ = now;
        look(now);
    }
}

void CudaIdleHeld::look(nanoseconds now) {
    const nanoseconds until = now - unsettled;
    Places places = held(until);
    processes_.for_each([&](Process &process) {
        if (!process.ended) {
            note_work(process, now, places);
        }
    });
    const bool all_work =
        std::ranges::all_of(places, [&](const auto &entry) { return entry.second.busy >= until; });
    const bool is_known = !all_work && note_open_calls(now, places);
    std::map<Key, Past> past;
    for (auto &[key, place] : places) {
        if (const auto before = past_.find(key); before != past_.end()) {
            place.busy = std::max(place.busy, before->second.busy);
        }
        if (is_known) {
            count(key, place);
        }
        past[key] = {.counted = until, .busy = place.busy};
    }
    past_ = std::move(past);
}

CudaIdleHeld::Places CudaIdleHeld::held(nanoseconds until) const {
    Places places;
    processes_.for_each([&](const Process &process) {
        if (process.ended) {
            return;
        }
        for (const HeldOnGpu &on : held_by(process, until).gpus) {
            if (on.bytes > 0) {
                Place &place = places[{process.owner, on.gpu}];
                place.process = &process;
                place.busy = std::max({place.busy, on.held_since, started_});
                place.until = until;
            }
        }
    });
    return places;
}

void CudaIdleHeld::note_work(Process &process, nanoseconds now, Places &places) const {
    auto &state = state_of<State>(process);
    if (const auto unseen = callbacks_.unseen_of(process.key).time; unseen > state.unobserved) {
        state.unobserved = unseen;
        state.grew_until = now;
    }
    const bool is_all_known = process.is_complete && since_of(process) >= started_;
    for_places_of(process, places, [&](const std::string &gpu, Place &place) {
        const GpuWork::Last last = state.work.last_on(
            [&](std::int32_t device) { return device < 0 || gpu_of(process, device) == gpu; });
        place.busy = std::max({place.busy, last.at, state.grew_until});
        place.has_work_ended =
            place.has_work_ended && last.has_ended && (last.at.count() != 0 || is_all_known);
    });
}

bool CudaIdleHeld::note_open_calls(nanoseconds now, Places &places) const {
    const auto open = callbacks_.open_calls(unsettled);
    if (!open) {
        return false;
    }
    processes_.for_each([&](Process &process) {
        auto &state = state_of<State>(process);
        const auto oldest = open->find(process.key);
        const bool is_open = oldest != open->end();
        if (std::exchange(state.is_open, is_open) && !is_open) {
            state.open_until = now;  // or a little earlier
        }
        for_places_of(process, places, [&](const std::string & /*gpu*/, Place &place) {
            place.busy = std::max(place.busy, state.open_until);
            // What was idle before the call is still to be counted.
            place.until = is_open ? std::min(place.until, oldest->second) : place.until;
        });
    });
    return true;
}

void CudaIdleHeld::count(const Key &key, const Place &place) {
    nanoseconds since = place.busy + shortest_idle;
    if (const auto before = past_.find(key); before != past_.end()) {
        since = std::max(since, before->second.counted);
    }
    if (since < place.until) {
        const std::string_view last_work = place.has_work_ended ? "ended" : "unknown";
        family_.add(family_.slot(key.first, labels_of(*place.process, {key.second, last_work})),
                    static_cast<std::uint64_t>((place.until - since).count()));
    }
}

}  // namespace gpusnoop::probes

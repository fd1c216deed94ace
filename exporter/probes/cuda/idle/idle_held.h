// Counts the time in which a program held memory of a GPU and gave that GPU nothing to do.
//
// It begins a minute after the last launch, copy or memset there, after its first memory there, and
// after a call was last found under way. Looking for calls visits all threads of the machine, so
// that is done every ten seconds, while not everybody works; the time is counted then, up to the
// last second. Processes with the same labels are one program: together, they hold the GPU and use
// it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

class CudaIdleHeld {
public:
    // What a process from before `started` did then is not known.
    CudaIdleHeld(series::FamilySet &families, const CudaProcessTable &processes,
                 const CudaCallbacks &callbacks, std::chrono::nanoseconds started);

    static void started(Process &process);

    // Any record of the calls ring but copies.
    static void on_call(Process &process, const cuda_record &head);
    static void on_copy(Process &process, const cuda_copy_record &record);
    // Launches that were counted where they enter the driver.
    static void on_counted(Process &process, std::int32_t device);

    // For once a second.
    void tidy(std::chrono::nanoseconds now);

private:
    struct State;
    // A GPU of which a program holds memory.
    struct Place {
        const Process *process = nullptr;  // one of the program's
        std::chrono::nanoseconds busy{};   // until then
        std::chrono::nanoseconds until{};  // the look, or a call is under way since then
        bool has_work_ended = true;
    };
    using Key = std::pair<series::Owner, std::string>;
    using Places = std::map<Key, Place>;

    // Of a place at the last look.
    struct Past {
        std::chrono::nanoseconds counted{};  // until then
        std::chrono::nanoseconds busy{};     // the same, also by processes that have ended since
    };

    void look(std::chrono::nanoseconds now);
    [[nodiscard]] Places held(std::chrono::nanoseconds until) const;
    void note_work(Process &process, std::chrono::nanoseconds now, Places &places) const;
    // False: it is not known which calls are under way.
    [[nodiscard]] bool note_open_calls(std::chrono::nanoseconds now, Places &places) const;
    void count(const Key &key, const Place &place);

    series::Family &family_;
    const CudaProcessTable &processes_;
    const CudaCallbacks &callbacks_;
    std::chrono::nanoseconds started_;
    std::chrono::nanoseconds tidied_;
    std::chrono::nanoseconds looked_;
    std::map<Key, Past> past_;
};

// When a process last gave its GPUs work, and whether it has seen the end of its kernels.
// Of launches and copies, only that they were submitted is seen. A copy ends soon; a kernel has
// ended once a later call that waits for the GPU has returned. (Which streams that waits for is not
// looked at.) Devices below 0 are unknown: any of the process's.
class GpuWork {
public:
    struct Last {
        std::chrono::nanoseconds at{};  // 0: there was none
        bool has_ended = true;
    };

    void launched(std::int32_t device, std::chrono::nanoseconds at) {
        OnDevice &on = of(device);
        on.at = std::max(on.at, at);
        on.launched = std::max(on.launched, at);
    }
    void copied(std::int32_t device, std::chrono::nanoseconds at) {
        OnDevice &on = of(device);
        on.at = std::max(on.at, at);
    }
    // A call that waits has returned: when it began.
    void waited(std::int32_t device, std::chrono::nanoseconds began) {
        OnDevice &on = of(device);
        on.waited = std::max(on.waited, began);
    }

    // It launched between two calls of settle(), which say when that was: between `since` and `at`.
    void launched_lately(std::int32_t device) { of(device).has_new = true; }
    void settle(std::chrono::nanoseconds since, std::chrono::nanoseconds at) {
        for (OnDevice &on : devices_) {
            if (on.has_new) {
                on.has_new = false;
                on.at = std::max(on.at, at);
                // If there was a wait meanwhile, it was after them: who launches so often that the
                // launches are only counted launches more behind a wait for something else.
                on.launched = std::max(on.launched, since);
            }
        }
    }

    // On the devices that are there.
    [[nodiscard]] Last last_on(auto &&is_there) const {
        Last last;
        for (const OnDevice &on : devices_) {
            if (on.at.count() != 0 && is_there(on.device)) {
                last.at = std::max(last.at, on.at);
                last.has_ended = last.has_ended && on.launched <= waited_for(on);
            }
        }
        return last;
    }

private:
    struct OnDevice {
        std::int32_t device = 0;
        std::chrono::nanoseconds at{};        // of its last work
        std::chrono::nanoseconds launched{};  // a wait that began then waited for all kernels
        std::chrono::nanoseconds waited{};    // when the last wait began
        bool has_new = false;
    };

    OnDevice &of(std::int32_t device) {
        const auto found = std::ranges::find(devices_, device, &OnDevice::device);
        return found != devices_.end() ? *found : devices_.emplace_back(OnDevice{.device = device});
    }
    // If it is not known of either on which device it was, it may have been the same.
    [[nodiscard]] std::chrono::nanoseconds waited_for(const OnDevice &on) const {
        std::chrono::nanoseconds waited = on.waited;
        for (const OnDevice &other : devices_) {
            if (on.device < 0 || other.device < 0) {
                waited = std::max(waited, other.waited);
            }
        }
        return waited;
    }

    std::vector<OnDevice> devices_;  // few
};

}  // namespace gpusnoop::probes

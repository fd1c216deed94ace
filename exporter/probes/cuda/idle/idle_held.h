// Counts the time in which a program held memory of a GPU and gave that GPU nothing to do.
//
// It begins a minute after the last launch, copy or memset there, after its first memory there, and
// after a call was last found under way. Looking for calls visits all threads of the machine, so
// that is done every ten seconds, while not everybody works; the time is counted then, up to the
// last second. Processes with the same labels are one program: together, they hold the GPU and use
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

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

}  // namespace gpusnoop::probes

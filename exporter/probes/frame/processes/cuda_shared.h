// What the probe `cuda` shares with other probes: maps of its BPF programs, and what it knows of
// GPU processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// The symbol of the function with this number in records; empty: there is none.
using CudaFunctionName = std::string_view (*)(std::uint16_t number);

// What a GPU process held when it ended, or became another program.
struct GpuProcessEnd {
    ProcessKey key;  // as the CUDA probe has it
    std::chrono::nanoseconds ended{};
    std::map<std::string, std::uint64_t> device_bytes;  // by the label `gpu`
    bool is_complete = false;                           // false: it may have held more
};

// The table of GPU processes and its filter (bpf/lib/processes/process_filter.bpf.h).
struct GpuProcessMaps {
    Fd processes;
    Fd filter;
};

// The table of followed processes (bpf/lib/processes/follow.bpf.h).
struct FollowMaps {
    Fd processes;
    Fd filter;
    Fd events;
    Fd counts;
    Fd refused;
};

// The calls that each thread is inside of (bpf/cuda/threads.bpf.h), and where programs are entered
// that look at calls which have failed, at their returns and at exits of their functions. Such a
// program is loaded for the way to attach of those that call it (enum bpf_attach_type).
struct CallMaps {
    Fd threads;
    Fd failed;
    Fd failed_at_exit;
    int return_type = 0;
    int exit_type = 0;
};

// The accounts of launching threads (bpf/host_time/accounts.bpf.h), and the state of threads.
struct TimeMaps {
    Fd threads;
    Fd times;
    Fd past;
    Fd gaps;
    Fd file_waits;
    Fd devices;
};

// Descriptors are copies, so that the maps outlive the probe; empty: it is not up, or does not make
// the map. It fills this in when it starts, before the probes that use it start.
struct CudaShared {
    GpuProcessMaps gpu_processes;

    // If its programs enter GPU processes into the table of followed processes, too, and how the
    // functions are called that they name by numbers.
    FollowMaps followed;
    CudaFunctionName function_name = nullptr;
    CallMaps calls;

    TimeMaps times;
    // With these maps: the label `gpu` of a process's device (struct host_device_key), nothing if
    // the CUDA probe does not know the process; and how many launches of the process were not
    // observed, for each that was. For the aggregating thread.
    std::function<std::optional<std::string>(std::uint32_t tgid, std::int32_t device)> gpu_name;
    std::function<double(std::uint32_t tgid)> unseen_launches;

    // The CUDA probe calls this at each end of a GPU process when it has counted what the process
    // held: at the end, or later. On the aggregating thread.
    std::function<void(const GpuProcessEnd &)> on_gpu_process_end = [](const auto &) {};

    // Gives `other`, of a profile beside the probes, the table of GPU processes and the calls that
    // threads are inside of.
    Result<> share_calls_with(CudaShared &other) const;
};

}  // namespace gpusnoop::probes

#include "exporter/probes/cuda/processes.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/cuda/families.h"

namespace gpusnoop::probes {

namespace {

// A process enters the kernel's table shortly after its since_ns.
constexpr std::chrono::nanoseconds max_starting_time = std::chrono::seconds(10);

std::string_view name_of(Linkage linkage) {
    switch (linkage) {
        case Linkage::shared:
            return "shared";
        case Linkage::statically:
            return "static";
        case Linkage::driver_only:
            return "driver_only";
        case Linkage::unknown:
            break;
    }
    return "unknown";
}

bool is_of(CudaApi api, std::size_t number) {
    return number < cuda_functions().size() && cuda_functions()[number].api == api;
}

// By the process's calls. A shared runtime takes precedence over runtimes that are linked into
// libraries.
void note_linkage(Process &process, std::uint16_t function, bool is_driver) {
    const Linkage now = is_driver                               ? Linkage::driver_only
                        : (function & CUDA_STATIC_RUNTIME) != 0 ? Linkage::statically
                                                                : Linkage::shared;
    process.linkage = std::min(process.linkage, now);
}

SeriesSettings described_by(SeriesSettings settings, const CudaCallbacks &callbacks) {
    settings.look_up = [&callbacks](ProcessIdentity &identity) {
        auto &process = static_cast<Process &>(identity);
        process.executable.tgid = process.key.tgid;
        callbacks.describe(process);
        return true;
    };
    return settings;
}

}  // namespace

CudaProcesses::CudaProcesses(series::FamilySet &families, SeriesSettings settings,
                             const CudaCallbacks &callbacks,
                             std::function<void(Process &)> on_start)
    : callbacks_(callbacks),
      table_(families, described_by(std::move(settings), callbacks), {},
             [on_start = std::move(on_start)] {
                 auto process = std::make_unique<Process>();
                 on_start(*process);
                 return process;
             }) {}

bool CudaProcesses::on_record(std::span<const std::byte> bytes) {
    const auto record = ebpf::decode<cuda_process_record>(bytes);
    if (!record) {
        return false;
    }
    const ProcessKey key{record->head.tgid, record->head.since_ns};
    if (Process *const process = table_.start(key, record->identity, record->details)) {
        process->executable = {key.tgid,
                               {record->exe_inode, record->exe_device, record->exe_generation, 0},
                               record->exe_bytes,
                               record->code_start,
                               record->code_end};
        callbacks_.remember_executable(process->executable);
    }
    return true;
}

Process &CudaProcesses::of(const cuda_record &head) {
    Process &process = of(ProcessKey{head.tgid, head.since_ns});
    const bool is_known =
        process.linkage == Linkage::shared && (process.calls_driver || process.is_complete);
    if (!is_known) {
        note_call(process, head.function);
    }
    return process;
}

void CudaProcesses::note_call(Process &process, std::uint16_t function) {
    const std::size_t number = function & ~CUDA_FUNCTION_FLAGS;
    // How a process has the runtime is not seen by its calls of CUPTI.
    if (number == CUDA_NO_FUNCTION || is_of(CudaApi::cupti, number)) {
        return;
    }
    const bool is_driver = is_of(CudaApi::driver, number);
    note_linkage(process, function, is_driver);
    if (!(is_driver || (function & CUDA_CALLED_DRIVER) != 0) ||
        std::exchange(process.calls_driver, true)) {
        return;
    }
    if (!process.is_complete && !process.ended) {
        process.is_complete = callbacks_.has_all_calls(process);
    }
}

// The process's record comes before its first call's. If it is late or lost, the calls still count,
// for a process without a name.
Process &CudaProcesses::of(const ProcessKey &key) {
    if (Process *const known = table_.find(key)) {
        return *known;
    }
    callbacks_.catch_up();
    return table_.of(key);
}

const Process *CudaProcesses::running(std::uint32_t tgid) const {
    const Process *last = nullptr;
    table_.for_each([&](const Process &process) {
        if (process.key.tgid == tgid &&
            (last == nullptr || last->key.since_ns < process.key.since_ns)) {
            last = &process;
        }
    });
    return last;
}

std::vector<Process *> CudaProcesses::missing_in(const LiveTable &table) const {
    const auto until = static_cast<std::uint64_t>((table.since - max_starting_time).count());
    std::vector<Process *> missing;
    table_.for_each([&](Process &process) {
        if (!process.ended && process.key.since_ns < until && !table.has_running(process.key)) {
            missing.push_back(&process);
        }
    });
    return missing;
}

void CudaProcesses::add_gauges(series::FamilySet &gauges,
                               std::span<const discovery::Gpu> gpus) const {
    const ProcessGauges families = make_process_gauges(gauges);
    table_.for_each([&](const Process &process) {
        if (!process.ended) {
            const std::string uid = process.uid ? std::to_string(*process.uid) : "";
            add_gauge(
                families.process_info,
                gauge_labels_of(
                    process, {process.exe, process.pod_uid, uid, process.user,
                              process.slurm_step_id, process.systemd_unit, name_of(process.linkage),
                              process.is_complete ? "true" : "false",
                              callbacks_.has_profiler(process.key) ? "cupti" : ""}),
                1);
        }
    });
    for (const discovery::Gpu &gpu : gpus) {
        add_gauge(families.gpu_info,
                  {std::to_string(gpu.index), gpu.uuid, gpu.pci_bus_id, gpu.name}, 1);
    }
    for (const auto &[job, given] : callbacks_.slurm_gpus()) {
        for (const unsigned gpu : given) {
            add_gauge(families.slurm_gpu, {job, std::to_string(gpu)}, 1);
        }
    }
}

}  // namespace gpusnoop::probes

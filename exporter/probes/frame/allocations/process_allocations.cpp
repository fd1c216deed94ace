#include "exporter/probes/frame/allocations/process_allocations.h"

namespace gpusnoop::probes {

ProcessAllocations allocations_of(const ProcessIdentity &process) {
    ProcessAllocations one;
    one.pid = process.key.tgid;
    one.names = process;
    one.pod_uid = process.pod_uid;
    one.exe = process.exe;
    one.uid = process.uid;
    one.slurm_step_id = process.slurm_step_id;
    one.systemd_unit = process.systemd_unit;
    return one;
}

}  // namespace gpusnoop::probes

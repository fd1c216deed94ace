// Which GPUs a process may open. A device node can exist that a device cgroup denies to it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/discovery/gpus/device_programs.h"
#include "exporter/discovery/gpus/gpus.h"

namespace gpusnoop::discovery {

// Of /dev/nvidia<minor>.
using Minors = std::set<int>;

struct GpuEvidence {
    // The GPUs whose nodes exist in its /dev; all of the node if there are none.
    std::vector<Gpu> existing;
    // Those that its device cgroup allows it to open, if that can be read: v1 does not name the
    // denied ones where it allows all but some.
    std::optional<Minors> listed;
    // It may not open all of them perhaps, by device programs that cannot be read, or by exceptions
    // from a list (v1) that allows all devices.
    bool is_hidden = false;
    // Nodes that the process has open now: CUDA may not have opened all of them yet.
    Minors opened;
    // The GPUs of which it has opened an instance (MIG), or several.
    Minors opened_instances;
};

// Where the evidence is.
struct GpuSources {
    std::string proc = "/proc";
    std::string cgroups = "/sys/fs/cgroup";  // where control groups are mounted
    // Of the process; empty optional: they cannot be read.
    std::optional<DevicePrograms> programs;
};

// Fails if the process or its /dev cannot be read. Reads at most 4096 links in /proc/<tgid>/fd, for
// as long as the reader has patience, and 64 KiB of text elsewhere. For work of reader.about().
[[nodiscard]] Result<GpuEvidence> gpu_evidence_of(processes::ProcessReader &reader,
                                                  std::uint32_t tgid, const std::vector<Gpu> &gpus,
                                                  const GpuSources &sources);

// As in SLURM_JOB_GPUS: 0,2-3. Empty optional: it is no such list.
[[nodiscard]] std::optional<Minors> slurm_minors(std::string_view list);

}  // namespace gpusnoop::discovery

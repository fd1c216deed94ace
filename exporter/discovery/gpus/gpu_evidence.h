// Which GPUs a process may open. A device node can exist that a device cgroup denies to it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/discovery/gpus/gpus.h"

namespace gpusnoop::discovery {

// Of /dev/nvidia<minor>.
using Minors = std::set<int>;

struct GpuEvidence {
    // The GPUs whose nodes exist in its /dev; all of the node if there are none.
    std::vector<Gpu> existing;
    // The device cgroup (v1) names all devices that may be opened. Empty optional: it does not, as
    // where it allows all but some, or there is none.
    std::optional<Minors> listed;
    // Nodes that the process has open now: CUDA may not have opened all of them yet.
    Minors opened;
};

// Fails if the process or its /dev cannot be read. `cgroups` is where control groups are mounted.
// Reads at most 4096 links in /proc/<tgid>/fd, 64 KiB of text elsewhere. For work of
// reader.about().
[[nodiscard]] Result<GpuEvidence> gpu_evidence_of(processes::ProcessReader &reader,
                                                  std::uint32_t tgid, const std::vector<Gpu> &gpus,
                                                  const std::string &proc,
                                                  const std::string &cgroups);

// The minors that a devices.list allows to open; empty optional if it allows all devices, of which
// it does not name the denied ones.
[[nodiscard]] std::optional<Minors> listed_minors(std::string_view devices_list,
                                                  const std::vector<Gpu> &gpus);

// As in SLURM_JOB_GPUS: 0,2-3. Empty optional: it is no such list.
[[nodiscard]] std::optional<Minors> slurm_minors(std::string_view list);

}  // namespace gpusnoop::discovery

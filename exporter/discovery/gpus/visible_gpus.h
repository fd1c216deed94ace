// Maps a process's CUDA device numbers to GPUs of the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/discovery/gpus/gpu_evidence.h"
#include "exporter/discovery/gpus/gpus.h"

namespace gpusnoop::discovery {

// The CUDA devices of one process, by ordinal (as passed to cudaSetDevice and cuDeviceGet). If CUDA
// could mean more than one GPU, the device is unknown.
class VisibleGpus {
public:
    // No device is known.
    VisibleGpus() = default;

    // The devices by CUDA's rules for CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER. `environment` is
    // the environment at the start, NAME=value and a NUL each, as untrusted bytes; `seen` are the
    // GPUs that the process can open, in the order of their PCI addresses; `opened_instances` are
    // those of which it has opened instances.
    //
    // A process that overwrites its environment, as programs that set their title do, has no known
    // devices unless there is only one GPU. A process that sets the variable itself before its
    // first CUDA call, as Python programs do, cannot be recognized.
    [[nodiscard]] static VisibleGpus of(std::string_view environment, const std::vector<Gpu> &seen,
                                        const Minors &opened_instances = {});

    // The same for a process that perhaps may not open all GPUs whose nodes exist: a device that
    // depends on which it may open is unknown.
    [[nodiscard]] static VisibleGpus of(std::string_view environment, const GpuEvidence &evidence,
                                        const std::vector<Gpu> &of_node);

    // For an environment that cannot be read: a device is known only if there is one GPU.
    [[nodiscard]] static VisibleGpus of_unknown(const std::vector<Gpu> &seen);

    // Host index of a device; empty if the device does not exist or cannot be known.
    [[nodiscard]] std::optional<unsigned> host_index(unsigned ordinal) const;

    // The GPU of all devices of the process, if they are on one; empty if that cannot be known.
    [[nodiscard]] std::optional<unsigned> only() const;

    // Does not depend on what the process has opened so far, so that another look tells no more.
    [[nodiscard]] bool is_settled() const { return is_settled_; }

private:
    // Of those of its devices that are known.
    [[nodiscard]] Minors minors_of(const std::vector<Gpu> &gpus) const;

    std::vector<std::optional<unsigned>> ordinals_;
    bool is_settled_ = false;
};

// The devices of a running process on a node with these `gpus`. Reads at most 1 MiB of its
// environment, the names in its /dev, its open device nodes and what its device cgroups say; if
// it cannot, a device is known only on a node with one GPU.
//
// The environment is that of the last exec, so call this after the process's first CUDA call, and
// compare its start time afterwards: the id may have been reused by then. Both reads touch memory
// and mounts that the process controls, and may wait for its own file system: this is work for
// reader.about(), and fails with ETIMEDOUT if the process does not answer.
[[nodiscard]] Result<VisibleGpus> visible_gpus_of(processes::ProcessReader &reader,
                                                  std::uint32_t tgid, const std::vector<Gpu> &gpus,
                                                  const GpuSources &sources = {});

}  // namespace gpusnoop::discovery

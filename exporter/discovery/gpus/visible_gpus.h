// Which GPU of the host a process means by the number of a CUDA device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/discovery/gpus/gpus.h"

namespace gpusnoop::discovery {

// The CUDA devices of one process, by ordinal (what cudaSetDevice and cuDeviceGet take). Where CUDA
// could mean more than one GPU, none is named.
class VisibleGpus {
public:
    // Nothing is known.
    VisibleGpus() = default;

    // What CUDA makes of CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER. `environment` is that of the
    // start, NAME=value and a NUL each, as untrusted bytes; `seen` are the GPUs that the process
    // can open, in the order of their PCI addresses.
    //
    // A process that writes over its environment, as those do that set their title, has no known
    // devices unless there is but one GPU. One that sets the variable in itself before its first
    // CUDA call, as Python programs do, cannot be told from one that does not.
    [[nodiscard]] static VisibleGpus of(std::string_view environment, const std::vector<Gpu> &seen);

    // For an environment that cannot be read: all that is known is a GPU that is the only one.
    [[nodiscard]] static VisibleGpus of_unknown(const std::vector<Gpu> &seen);

    // Index on the host of a device; none if there is no such device or it cannot be known.
    [[nodiscard]] std::optional<unsigned> host_index(unsigned ordinal) const;

    // The one GPU that all devices of the process are on; none if that cannot be known.
    [[nodiscard]] std::optional<unsigned> only() const;

private:
    std::vector<std::optional<unsigned>> ordinals_;
};

// The devices of a running process on a node with these `gpus`. Reads at most 1 MiB of its
// environment and looks at names in its /dev; where it cannot, only a node's only GPU is known.
//
// The environment is that of the last exec, so ask after the process's first CUDA call, and compare
// its start afterwards: the id may be another process's by then. Both reads touch what the process
// controls (its memory, its mounts) and may wait for a file system of its own, so this is not for a
// thread that others wait for. `proc` is where /proc is mounted.
[[nodiscard]] VisibleGpus visible_gpus_of(std::uint32_t tgid, const std::vector<Gpu> &gpus,
                                          const std::string &proc = "/proc");

}  // namespace gpusnoop::discovery

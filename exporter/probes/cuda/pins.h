// The probes of libraries that stay attached while no exporter runs.
#pragma once

#include <optional>
#include <string>

#include "exporter/discovery/library.h"
#include "exporter/ebpf/pins.h"
#include "exporter/ebpf/uprobe.h"

namespace gpusnoop::probes {

class CudaPins {
public:
    explicit CudaPins(ebpf::Pins pins) : pins_(std::move(pins)) {}

    [[nodiscard]] const ebpf::Pins &pins() const { return pins_; }

    // The probes that an earlier exporter attached to this very file, if they are complete. Removes
    // the probes of a file that has changed since.
    [[nodiscard]] std::optional<ebpf::UprobeSet> adopt(const discovery::Library &library) const;
    [[nodiscard]] Result<> keep(const ebpf::UprobeSet &probes,
                                const discovery::Library &library) const;
    void forget(const FileId &id) const;

private:
    ebpf::Pins pins_;
};

}  // namespace gpusnoop::probes

#include "exporter/probes/torch/attacher.h"

#include <utility>

#include "exporter/base/glob.h"

namespace gpusnoop::probes {

TorchAttacher::TorchAttacher(const TorchPrograms &programs, AttachedLibraries &attached,
                             std::vector<std::string> libraries)
    : programs_(programs),
      attached_(attached),
      libraries_(std::move(libraries)),
      detacher_(programs.mode()) {}

// Detaches all at the same time: one after another would take long.
TorchAttacher::~TorchAttacher() {
    for (auto &[id, probes] : attached_.remove_all()) {
        detacher_.detach({.file = id, .probes = std::move(probes)});
    }
}

bool TorchAttacher::wants(std::string_view name) const {
    return matches_any(libraries_, name);
}

Result<> TorchAttacher::attach(const discovery::Library &library) {
    auto kept = detacher_.take_back(library.id);
    auto probes = programs_.attach(library, std::move(kept).value_or(ebpf::UprobeSet{}));
    if (!probes) {
        failed(probes.error().reason);
        return tl::unexpected(probes.error().error);
    }
    if (!probes->is_empty()) {
        attached_.add(library, std::move(*probes), programs_.mode(), "attached");
    }
    return {};
}

void TorchAttacher::detach(const FileId &id, bool is_changed) {
    if (auto probes = attached_.remove(id, AttachedLibraries::reason(is_changed))) {
        detacher_.detach({.file = id, .probes = *std::move(probes), .is_changed = is_changed});
    }
}

}  // namespace gpusnoop::probes

#include "exporter/probes/cuda/attacher.h"

#include <fnmatch.h>

#include <optional>
#include <utility>

#include "exporter/ebpf/uprobe.h"
#include "exporter/probes/cuda/functions.h"
#include "exporter/probes/cuda/pins.h"

namespace gpusnoop::probes {

CudaAttacher::CudaAttacher(const CudaPrograms &programs, AttachedLibraries &attached,
                           std::vector<std::string> libraries)
    : programs_(programs),
      attached_(attached),
      libraries_(std::move(libraries)),
      detacher_(programs.mode()) {
    if (const CudaPins *pins = programs.pins()) {
        missed_calls_.were_incomplete(pins->incomplete());
    }
}

// Detaches all at the same time: one after another would take long.
CudaAttacher::~CudaAttacher() {
    for (auto &[id, probes] : attached_.remove_all()) {
        detacher_.detach({.file = id, .probes = std::move(probes)});
    }
}

bool CudaAttacher::wants(std::string_view name) const {
    const std::string file(name);
    for (const std::string &glob : libraries_) {
        if (::fnmatch(glob.c_str(), file.c_str(), 0) == 0) {
            return true;
        }
    }
    return false;
}

Result<> CudaAttacher::attach(const discovery::Library &library) {
    const CudaPins *pins = programs_.pins();
    if (pins != nullptr) {
        if (auto adopted = pins->adopt(library)) {
            attached_.add(library, std::move(*adopted), programs_.mode(), "still attached");
            note_seen(library, &MissedCalls::adopted);
            return {};
        }
    }
    const auto places = programs_.find(library);
    if (!places) {
        failed(places.error().reason);
        if (places.error().reason == no_symbols) {
            missed_calls_.has_no_functions(library.id);
        }
        return tl::unexpected(places.error().error);
    }
    if (places->points.empty()) {
        missed_calls_.has_no_functions(library.id);
        return {};  // a program without its own runtime
    }
    auto kept = detacher_.take_back(library.id);
    auto probes = programs_.attach(library, *places, std::move(kept).value_or(ebpf::UprobeSet{}));
    if (!probes) {
        failed(probes.error().reason);
        return tl::unexpected(probes.error().error);
    }
    if (pins != nullptr) {
        if (auto pinned = pins->keep(*probes, library); !pinned) {
            failed("pin");
            return pinned;
        }
    }
    note_seen(library, &MissedCalls::attached);
    attached_.add(library, std::move(*probes), programs_.mode(), "attached");
    return {};
}

// A process that had CUPTI before its probes has no unseen allocations, copies or launches by that.
void CudaAttacher::note_seen(const discovery::Library &library,
                             void (MissedCalls::*seen)(const FileId &, bool)) {
    if (is_cupti(library.name)) {
        missed_calls_.has_no_functions(library.id);
    } else {
        (missed_calls_.*seen)(library.id, is_cuda_driver(library.name));
    }
}

void CudaAttacher::detach(const FileId &id, bool is_changed) {
    missed_calls_.detached(id);
    if (auto probes = attached_.remove(id)) {
        if (const CudaPins *pins = programs_.pins()) {
            pins->forget(id);
        }
        detacher_.detach({.file = id, .probes = *std::move(probes), .is_changed = is_changed});
    }
}

}  // namespace gpusnoop::probes

#include "exporter/probes/cuda/attacher.h"

#include <fnmatch.h>

#include <optional>
#include <utility>

#include "exporter/ebpf/uprobe.h"
#include "exporter/probes/cuda/pins.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

CudaAttacher::CudaAttacher(const CudaPrograms &programs, AttachedLibraries &attached,
                           std::vector<std::string> libraries)
    : programs_(programs),
      attached_(attached),
      libraries_(std::move(libraries)),
      detacher_(programs.mode()) {
    if (const CudaPins *pins = programs.pins()) {
        last_attached_ = pins->last_attached();
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
            return {};
        }
    }
    const auto places = programs_.find(library);
    if (!places) {
        failed(places.error().reason);
        return tl::unexpected(places.error().error);
    }
    if (places->points.empty()) {
        return {};  // a program without its own runtime
    }
    auto kept = detacher_.take_back(library.id);
    // Set before and after: for a process that starts meanwhile, some calls may be missed.
    const nanoseconds before = last_attached_.exchange(nanoseconds::max());
    auto probes = programs_.attach(library, *places, std::move(kept).value_or(ebpf::UprobeSet{}));
    last_attached_ = probes ? now_on(CLOCK_BOOTTIME) : before;
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
    attached_.add(library, std::move(*probes), programs_.mode(), "attached");
    return {};
}

void CudaAttacher::detach(const FileId &id, bool is_changed) {
    if (auto probes = attached_.remove(id)) {
        if (const CudaPins *pins = programs_.pins()) {
            pins->forget(id);
        }
        detacher_.detach({.file = id, .probes = *std::move(probes), .is_changed = is_changed});
    }
}

}  // namespace gpusnoop::probes

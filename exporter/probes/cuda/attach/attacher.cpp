#include "exporter/probes/cuda/attach/attacher.h"

#include <fnmatch.h>

#include <cerrno>
#include <utility>

#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/probes/cuda/attach/pins.h"

namespace gpusnoop::probes {

CudaAttacher::CudaAttacher(const CudaPrograms &programs, AttachedLibraries &attached,
                           std::vector<std::string> libraries, LaunchProbes *launches)
    : programs_(programs),
      attached_(attached),
      libraries_(std::move(libraries)),
      launches_(launches),
      detacher_(programs.mode()) {
    if (const CudaPins *pins = programs.pins()) {
        missed_calls_.were_incomplete(pins->incomplete());
        for (std::size_t i = 0; i < pins->missing(); i++) {
            failed("pin");
        }
    }
}

// Detaches all at the same time: one after another would take long.
CudaAttacher::~CudaAttacher() {
    if (launches_ != nullptr) {
        for (const FileId &id : launches_->files()) {
            detach_launches(id, false);
        }
    }
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

// The launches leave `places`.
tl::expected<AttachedLibraries::Functions, CudaPrograms::Failure> CudaAttacher::attach_launches(
    const discovery::Library &library, CudaPrograms::Places &places) {
    if (launches_ == nullptr) {
        return AttachedLibraries::Functions{};
    }
    CudaPrograms::Places launches = take_launches(places);
    if (launches.points.empty()) {
        return AttachedLibraries::Functions{};
    }
    return launches_->attach(library, std::move(launches));
}

Result<> CudaAttacher::refuse(const discovery::Library &library,
                              const CudaPrograms::Failure &failure) {
    if (failure.error.code == EAGAIN) {
        return tl::unexpected(failure.error);  // it is offered again soon
    }
    failed(failure.reason);
    if (failure.reason == no_symbols) {
        missed_calls_.has_no_functions(library.id);
    }
    return tl::unexpected(failure.error);
}

Result<> CudaAttacher::attach(const discovery::Library &library) {
    const CudaPins *pins = programs_.pins();
    auto adopted = pins != nullptr ? pins->adopt(library) : std::nullopt;
    if (adopted && launches_ == nullptr) {
        attached_.add(library, std::move(*adopted), programs_.mode(), "still attached");
        note_seen(library, &MissedCalls::adopted);
        return {};
    }
    auto places = programs_.find(library);
    if (!places) {
        return refuse(library, places.error());
    }
    if (places->points.empty()) {
        missed_calls_.has_no_functions(library.id);
        return {};  // a program without its own runtime
    }
    const auto launches = attach_launches(library, *places);
    if (!launches) {
        return refuse(library, launches.error());
    }
    if (adopted) {
        attached_.add(library, std::move(*adopted), programs_.mode(), "still attached", *launches);
        note_seen(library, &MissedCalls::adopted);
        return {};
    }
    auto kept = detacher_.take_back(library.id);
    auto probes = programs_.attach(library, *places, std::move(kept).value_or(ebpf::UprobeSet{}));
    if (!probes) {
        detach_launches(library.id, false);
        return refuse(library, probes.error());
    }
    if (pins != nullptr) {
        if (auto pinned = pins->keep(*probes, library); !pinned) {
            failed("pin");
            detach_launches(library.id, false);
            return pinned;
        }
    }
    note_seen(library, &MissedCalls::attached);
    attached_.add(library, std::move(*probes), programs_.mode(), "attached", *launches);
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

// Not to be taken back for the other probes of the file.
void CudaAttacher::detach_launches(const FileId &id, bool is_changed) {
    if (launches_ == nullptr) {
        return;
    }
    for (ebpf::UprobeSet &probes : launches_->remove(id)) {
        detacher_.detach(
            {.file = id, .probes = std::move(probes), .is_changed = is_changed, .done = [] {}});
    }
}

void CudaAttacher::detach(const FileId &id, bool is_changed) {
    missed_calls_.detached(id);
    detach_launches(id, is_changed);
    if (auto probes = attached_.remove(id, AttachedLibraries::reason(is_changed))) {
        if (const CudaPins *pins = programs_.pins()) {
            pins->forget(id);
        }
        detacher_.detach({.file = id, .probes = *std::move(probes), .is_changed = is_changed});
    }
}

}  // namespace gpusnoop::probes

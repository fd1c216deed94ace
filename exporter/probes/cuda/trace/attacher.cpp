#include "exporter/probes/cuda/trace/attacher.h"

#include <utility>

#include "exporter/base/glob.h"
#include "exporter/base/log.h"

namespace gpusnoop::trace {

bool Attacher::wants(std::string_view name) const {
    return matches_any(libraries_, name);
}

Attacher::~Attacher() {
    for (auto &[id, probes] : attached_) {
        detacher_.detach({.file = id, .probes = std::move(probes)});
    }
}

void Attacher::detach(const FileId &id, bool is_changed) {
    if (auto gone = attached_.extract(id)) {
        detacher_.detach(
            {.file = id, .probes = std::move(gone.mapped()), .is_changed = is_changed});
    }
}

Result<> Attacher::attach(const discovery::Library &library) {
    const auto places = programs_.find(library);
    if (!places) {
        return tl::unexpected(places.error().error);
    }
    if (places->points.empty()) {
        return {};  // a program without its own runtime
    }
    auto kept = detacher_.take_back(library.id);
    auto probes = programs_.attach(library, *places, std::move(kept).value_or(ebpf::UprobeSet{}));
    if (!probes) {
        return tl::unexpected(probes.error().error);
    }
    log::info("attached", {{"library", library.name},
                           {"functions", probes->functions()},
                           {"inode", library.id.inode},
                           {"mode", to_string(programs_.mode())}});
    attached_.insert_or_assign(library.id, std::move(*probes));
    return {};
}

}  // namespace gpusnoop::trace

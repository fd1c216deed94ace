#include "exporter/probes/frame/libraries/attached_libraries.h"

#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_build_bytes = 64;

std::string build_of(const discovery::Library &library) {
    const auto elf = symbols::ElfFile::open(library.readable());
    return elf ? elf->build_id().value_or("").substr(0, max_build_bytes) : "";
}

}  // namespace

void AttachedLibraries::started(const Result<> &result) {
    const std::lock_guard lock(mutex_);
    state_ = result ? ProbeState::up : state_after(result.error());
    down_because_ = result ? "" : result.error().message;
}

void AttachedLibraries::add(const discovery::Library &library, ebpf::UprobeSet probes,
                            ebpf::AttachMode mode, std::string_view what, Functions elsewhere) {
    note(library,
         {probes.functions() + elsewhere.attached,
          probes.expensive_functions() + elsewhere.expensive},
         mode, what);
    const std::lock_guard lock(mutex_);
    attached_.at(library.id).probes = std::move(probes);
}

void AttachedLibraries::note(const discovery::Library &library, Functions functions,
                             ebpf::AttachMode mode, std::string_view what) {
    const std::string name = to_valid_utf8(library.name, max_label_bytes);
    const AttachedLibrary attached{library.id, name, build_of(library), functions.attached,
                                   functions.expensive};
    {
        const std::lock_guard lock(mutex_);
        mode_ = mode;
        attached_.insert_or_assign(library.id, Attached{attached, {}});
    }
    log::info(what, {{"probe", probe_},
                     {"library", name},
                     {"functions", functions.attached},
                     {"expensive", functions.expensive},
                     {"inode", library.id.inode},
                     {"mode", to_string(mode)}});
}

std::optional<ebpf::UprobeSet> AttachedLibraries::remove(const FileId &id, std::string_view why) {
    decltype(attached_)::node_type gone;
    {
        const std::lock_guard lock(mutex_);
        gone = attached_.extract(id);
    }
    if (!gone) {
        return std::nullopt;
    }
    log::info(why,
              {{"probe", probe_}, {"library", gone.mapped().library.name}, {"inode", id.inode}});
    return std::move(gone.mapped().probes);
}

std::map<FileId, ebpf::UprobeSet> AttachedLibraries::remove_all() {
    const std::lock_guard lock(mutex_);
    std::map<FileId, ebpf::UprobeSet> all;
    for (auto &[id, attached] : attached_) {
        all.emplace(id, std::move(attached.probes));
    }
    attached_.clear();
    return all;
}

void AttachedLibraries::failed(std::string_view reason) {
    const std::lock_guard lock(mutex_);
    failures_[std::string(reason)]++;
}

Health AttachedLibraries::health() const {
    const std::lock_guard lock(mutex_);
    Health health;
    health.name = probe_;
    health.state = state_;
    health.detail = down_because_;
    health.attach_failures = failures_;
    for (const auto &[id, one] : attached_) {
        health.attached_functions += one.library.functions;
        health.libraries.push_back(one.library);
    }
    if (health.is_up()) {
        health.detail = attached_.empty() ? idle_ : "attached by " + std::string(to_string(mode_));
    }
    return health;
}

void add_counts(Health &health, int account_map, const ebpf::Runs &runs) {
    if (const auto account = ebpf::read_account(account_map)) {
        health.account = *account;
    }
    health.runs = runs;
}

}  // namespace gpusnoop::probes

// The libraries that a probe is attached to, and its failures. The discovery thread changes them,
// any thread reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/probe.h"

namespace gpusnoop::probes {

class AttachedLibraries {
public:
    // `probe` is its name. `idle` is the detail while it is attached to nothing.
    AttachedLibraries(std::string probe, std::string idle)
        : probe_(std::move(probe)), idle_(std::move(idle)) {}

    // Whether the probe is up.
    void started(const Result<> &result);

    struct Functions {
        std::size_t attached = 0;
        std::size_t expensive = 0;  // of these, as in ebpf::UprobeSet
    };

    // Both log it with the word `what`, such as "attached". With note() the caller keeps the
    // probes; with add() those of the functions
    // `elsewhere`.
    void add(const discovery::Library &library, ebpf::UprobeSet probes, ebpf::AttachMode mode,
             std::string_view what, Functions elsewhere = {0, 0});
    void note(const discovery::Library &library, Functions functions, ebpf::AttachMode mode,
              std::string_view what);
    // Logs `why`. The probes stay attached as long as the caller keeps them; nothing: it was not
    // attached to that file.
    std::optional<ebpf::UprobeSet> remove(const FileId &id, std::string_view why = unused);
    // The other reason: its contents have changed, or a process that maps it is released.
    static constexpr std::string_view unused = "detached: no process uses it any more";
    [[nodiscard]] static constexpr std::string_view reason(bool is_changed) {
        return is_changed ? "detached" : unused;
    }
    // All probes that are kept here.
    std::map<FileId, ebpf::UprobeSet> remove_all();
    // A library could not be attached to; `reason` is a word for a label.
    void failed(std::string_view reason);

    // All fields except the counts of the BPF programs.
    [[nodiscard]] Health health() const;

private:
    struct Attached {
        AttachedLibrary library;
        ebpf::UprobeSet probes;
    };

    std::string probe_;
    std::string idle_;
    mutable std::mutex mutex_;
    ProbeState state_ = ProbeState::failed;
    std::string down_because_ = "not started";
    ebpf::AttachMode mode_{};
    std::map<FileId, Attached> attached_;
    std::map<std::string, std::uint64_t> failures_;
};

// Adds the counts of a probe's programs to `health`: its map `account`, and its runs.
void add_counts(Health &health, int account_map, const ebpf::Runs &runs);

}  // namespace gpusnoop::probes

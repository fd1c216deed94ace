// The probes of libraries that stay attached while no exporter runs.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "exporter/base/fd.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/maps/pins.h"
#include "exporter/probes/cuda/attach/missed_calls.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

class CudaPins {
public:
    // Opens or makes the tables of incomplete processes and of scripts, too. If some of an earlier
    // exporter's pins are missing, removes the others: what is attached would write to tables that
    // nobody reads, or the tables would have memory whose free was not seen. Logs which are
    // missing.
    static Result<CudaPins> open(const std::string &path, const std::string &generation);
    [[nodiscard]] std::size_t missing() const { return missing_; }

    [[nodiscard]] const ebpf::Pins &pins() const { return pins_; }

    // The probes that an earlier exporter attached to this very file, if they are complete. Removes
    // the probes of a file that has changed since.
    [[nodiscard]] std::optional<ebpf::UprobeSet> adopt(const discovery::Library &library) const;
    [[nodiscard]] Result<> keep(const ebpf::UprobeSet &probes,
                                const discovery::Library &library) const;
    void forget(const FileId &id) const;

    // The processes that may have made calls that no exporter's probes saw. The next exporter
    // cannot know them, as its probes were there all the time.
    [[nodiscard]] std::set<MissedCalls::Key> incomplete() const;
    void keep_incomplete(const std::set<MissedCalls::Key> &processes);

    // The scripts of processes: only one exporter gets the record of a process's start. Empty: none
    // is kept.
    [[nodiscard]] std::string script_of(const ProcessKey &key) const;
    void keep_script(const ProcessIdentity &process) const;

private:
    CudaPins(ebpf::Pins pins, Fd incomplete, Fd scripts)
        : pins_(std::move(pins)),
          incomplete_(std::move(incomplete)),
          scripts_(std::move(scripts)) {}
    void forget_scripts_of_ended() const;

    ebpf::Pins pins_;
    Fd incomplete_;
    Fd scripts_;
    std::set<MissedCalls::Key> kept_;  // in the table
    std::size_t missing_ = 0;
};

}  // namespace gpusnoop::probes

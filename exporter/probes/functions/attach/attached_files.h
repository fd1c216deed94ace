// The files that the functions probe is attached to. It attaches to functions of them and changes
// the functions, while the calls of unchanged functions still count.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/detacher.h"
#include "exporter/probes/frame/attached_libraries.h"
#include "exporter/probes/functions/attach/attach_plan.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/attach/programs.h"

namespace gpusnoop::probes {

// For the discovery thread.
class AttachedFiles {
public:
    struct Change {
        std::size_t functions = 0;  // that count now
        std::size_t added = 0;
        std::size_t dropped = 0;
        std::size_t changed = 0;             // count as another function now, or in another way
        std::vector<std::string> refused{};  // by the kernel, see FunctionLink
    };

    // Both must outlive it.
    AttachedFiles(FunctionPrograms &programs, FunctionIds &table)
        : programs_(&programs), table_(&table), detacher_(programs.mode()) {}
    ~AttachedFiles();
    AttachedFiles(const AttachedFiles &) = delete;
    AttachedFiles &operator=(const AttachedFiles &) = delete;

    // Makes the file's attached functions equal to `wanted`. Probes of functions that stay are not
    // touched. Other functions are detached with the last of their link: in the mode perf each
    // separately, else with the last of their group; until then they are muted. If a new function
    // cannot be attached to, no new function is attached, but all other changes are made.
    Result<Change> change(const discovery::Library &library,
                          const std::vector<SelectedFunction> &wanted);

    enum class Reason {
        unused,   // by any process
        changed,  // it has other contents now
        removed,  // its functions are no longer configured
    };
    // Detaches all functions of the file, if there are any. Does not wait until they are detached.
    void detach(const FileId &id, Reason reason);
    [[nodiscard]] bool must_wait_for(const FileId &id) { return detacher_.must_wait_for(id); }
    [[nodiscard]] bool has(const FileId &id) const { return files_.contains(id); }
    // Those that count now.
    [[nodiscard]] AttachedLibraries::Functions functions(const FileId &id) const;

private:
    using Links = std::vector<FunctionLink>;

    Result<Links> attach(const discovery::Library &library,
                         const std::vector<const SelectedFunction *> &functions);
    void release(const FileId &id, Links links, Reason reason);

    FunctionPrograms *programs_;
    FunctionIds *table_;
    std::map<FileId, Links> files_;
    ebpf::Detacher detacher_;  // the last: it uses the members above
};

}  // namespace gpusnoop::probes

// The files that the functions probe is attached to: attaches to functions of them, and changes to
// which, while those that stay are counted on.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/detacher.h"
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
        std::size_t changed = 0;             // count for something else now, or in another way
        std::vector<std::string> refused{};  // by the kernel, see FunctionLink
    };

    // Both must outlive it.
    AttachedFiles(FunctionPrograms &programs, FunctionIds &table)
        : programs_(&programs), table_(&table), detacher_(programs.mode()) {}
    ~AttachedFiles();
    AttachedFiles(const AttachedFiles &) = delete;
    AttachedFiles &operator=(const AttachedFiles &) = delete;

    // Has the file's functions be those of `wanted`. Probes of functions that stay are not touched.
    // Those of functions that go are detached with the last of their link: in the mode perf each by
    // itself, else with the last of their group; until then they are muted. If new functions cannot
    // be attached to, none of them is, and the rest is done all the same.
    Result<Change> change(const discovery::Library &library,
                          const std::vector<SelectedFunction> &wanted);

    enum class Reason {
        unused,   // by any process
        changed,  // it has other contents now
        removed,  // none of it is configured any more
    };
    // From all of the file, if it is attached to. Does not wait until it is detached.
    void detach(const FileId &id, Reason reason);
    [[nodiscard]] bool must_wait_for(const FileId &id) { return detacher_.must_wait_for(id); }
    [[nodiscard]] bool has(const FileId &id) const { return files_.contains(id); }
    [[nodiscard]] std::size_t functions(const FileId &id) const;

private:
    using Links = std::vector<FunctionLink>;

    Result<Links> attach(const discovery::Library &library,
                         const std::vector<const SelectedFunction *> &functions);
    void release(const FileId &id, Links links, Reason reason);

    FunctionPrograms *programs_;
    FunctionIds *table_;
    std::map<FileId, Links> files_;
    ebpf::Detacher detacher_;  // the last: it uses what is above
};

}  // namespace gpusnoop::probes

// The files that FuncSnoop is attached to: attaches to functions of them, and changes to which,
// while those that stay are counted on.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/probes/func_places.h"
#include "exporter/probes/func_programs.h"
#include "exporter/probes/func_table.h"

namespace gpusnoop::probes {

// For the discovery thread.
class FuncFiles {
public:
    struct Change {
        std::size_t functions = 0;  // that count now
        std::size_t added = 0;
        std::size_t dropped = 0;
        std::size_t changed = 0;  // count for something else now, or in another way
    };

    // Both must outlive it.
    FuncFiles(FuncPrograms &programs, FuncTable &table) : programs_(&programs), table_(&table) {}

    // Has the file's functions be those of `wanted`. Probes of functions that stay are not touched.
    // Those of functions that go are detached with the last of their link: in the mode perf at
    // once, else with the last of their group; until then they are muted. If new functions cannot
    // be attached to, none of them is, and the rest is done all the same.
    Result<Change> change(const discovery::Library &library,
                          const std::vector<SelectedFunction> &wanted);

    // From all of the file, if it is attached to. `is_removed`: as none of it is configured any
    // more, not as nobody uses it.
    void detach(const FileId &id, bool is_removed);
    [[nodiscard]] bool has(const FileId &id) const { return files_.contains(id); }
    [[nodiscard]] std::size_t functions(const FileId &id) const;

private:
    using Links = std::vector<FuncLink>;

    Result<Links> attach(const discovery::Library &library,
                         const std::vector<const SelectedFunction *> &functions);
    void release(Links links, bool is_removed);

    FuncPrograms *programs_;
    FuncTable *table_;
    std::map<FileId, Links> files_;
};

}  // namespace gpusnoop::probes

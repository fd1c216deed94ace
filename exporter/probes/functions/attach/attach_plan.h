// Plans the attachments of one file when other functions are wanted.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "exporter/probes/functions/select/selection.h"

namespace gpusnoop::probes {

// A function of a file with its probes.
struct AttachedFunction {
    SelectedFunction function;  // as it was selected
    std::uint32_t number = 0;   // in its records
    // It is counted at its entry only, by the configuration or because the kernel allowed nothing
    // else.
    bool entry_only = false;
    // False: its calls no longer count. The probes still exist, as they are attached together with
    // others.
    bool is_wanted = true;
    bool can_pause = false;  // if it costs a process too much
};

// Borrows both.
struct AttachPlan {
    // The same probes, though their calls may count as another function now.
    std::vector<std::pair<AttachedFunction *, const SelectedFunction *>> keep;
    std::vector<const SelectedFunction *> add;
    std::vector<AttachedFunction *> drop;  // of the wanted ones
};

// `wanted` has no entry twice. A function that is not wanted now may be kept.
[[nodiscard]] AttachPlan plan_change(const std::vector<AttachedFunction *> &places,
                                     const std::vector<SelectedFunction> &wanted);

}  // namespace gpusnoop::probes

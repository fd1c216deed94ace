// What is attached to in one file, and what of it changes when other functions are wanted.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "exporter/probes/functions/select/selection.h"

namespace gpusnoop::probes {

// A function of a file with its probes.
struct AttachedFunction {
    SelectedFunction function;  // as it was selected
    std::uint32_t number = 0;   // that its records have
    // It is counted at its entry only, also where the kernel did not allow what was selected.
    bool entry_only = false;
    // False: its calls do not count any more. The probes are still there as they are attached
    // together with others.
    bool is_wanted = true;
};

// Borrows both.
struct AttachPlan {
    // With the same probes, though it may count for something else now.
    std::vector<std::pair<AttachedFunction *, const SelectedFunction *>> keep;
    std::vector<const SelectedFunction *> add;
    std::vector<AttachedFunction *> drop;  // of those that were wanted
};

// `wanted` has no entry twice. A place that is not wanted at present may be kept.
[[nodiscard]] AttachPlan plan_change(const std::vector<AttachedFunction *> &places,
                                     const std::vector<SelectedFunction> &wanted);

}  // namespace gpusnoop::probes

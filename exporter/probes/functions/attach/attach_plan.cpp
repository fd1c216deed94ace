#include "exporter/probes/functions/attach/attach_plan.h"

#include <unordered_map>
#include <unordered_set>

namespace gpusnoop::probes {

namespace {

bool has_same_probes(const SelectedFunction &one, const SelectedFunction &other) {
    return one.entry == other.entry && one.entry_probe == other.entry_probe &&
           one.ending == other.ending && one.exits == other.exits &&
           one.jumps_to_entry == other.jumps_to_entry && one.begins == other.begins &&
           one.ends == other.ends;
}

}  // namespace

AttachPlan plan_change(const std::vector<AttachedFunction *> &places,
                       const std::vector<SelectedFunction> &wanted) {
    std::unordered_map<std::uint64_t, const SelectedFunction *> by_entry;
    for (const SelectedFunction &function : wanted) {
        by_entry.emplace(function.entry, &function);
    }
    AttachPlan plan;
    std::unordered_set<std::uint64_t> kept;
    // Functions that count now come first: an address can also have older probes, which are muted.
    for (const bool is_wanted : {true, false}) {
        for (AttachedFunction *place : places) {
            if (place->is_wanted != is_wanted) {
                continue;
            }
            const auto found = by_entry.find(place->function.entry);
            if (found != by_entry.end() && has_same_probes(place->function, *found->second) &&
                kept.insert(place->function.entry).second) {
                plan.keep.emplace_back(place, found->second);
            } else if (is_wanted) {
                plan.drop.push_back(place);
            }
        }
    }
    for (const SelectedFunction &function : wanted) {
        if (!kept.contains(function.entry)) {
            plan.add.push_back(&function);
        }
    }
    return plan;
}

}  // namespace gpusnoop::probes

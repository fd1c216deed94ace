// A document for people and programs that look for a leak.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

// The memory that a process holds, by call site.
struct SiteAllocations {
    Amount amount;
    SiteName name;  // empty if it is not known yet
    // Of an estimate: with a probability of 95 % it is off by no more.
    std::optional<std::uint64_t> error_bytes{};
};
struct ProcessAllocations {
    std::uint32_t pid = 0;
    processes::ProcessNames names;
    std::string pod_uid, exe;
    std::optional<std::uint32_t> uid;
    std::string slurm_step_id, systemd_unit;
    Amount amount;
    std::vector<SiteAllocations> sites;  // the largest amounts first
    bool is_complete = true;             // false: it may hold more, from calls that were not seen
};

// With the process's names, and no memory yet.
[[nodiscard]] ProcessAllocations allocations_of(const ProcessIdentity &process);

// In both, `amounts` is a map from sites to amounts.
//
// The largest amounts first.
template <typename Amounts>
std::vector<SiteAllocations> largest_first(const Amounts &amounts, const ProcessSites &names) {
    std::vector<std::pair<Site, Amount>> sorted(amounts.begin(), amounts.end());
    std::ranges::sort(sorted, [](const auto &a, const auto &b) {
        return std::pair(b.second.bytes, a.first) < std::pair(a.second.bytes, b.first);
    });
    std::vector<SiteAllocations> sites;
    for (const auto &[site, amount] : sorted) {
        sites.push_back({amount, names.name_of(site), {}});
    }
    return sites;
}

// The bytes of all sites with one label, the most bytes first, as ProcessSites::choose() chooses
// them. Sites that have no label yet are missing.
template <typename Amounts>
std::vector<std::pair<std::string_view, std::uint64_t>> largest_labels(const Amounts &amounts,
                                                                       const ProcessSites &names,
                                                                       std::size_t at_most) {
    std::map<std::string_view, std::uint64_t> bytes;
    for (const auto &[site, amount] : amounts) {
        const SiteName &name = names.name_of(site);
        if (!name.label.empty()) {
            bytes[name.label] += amount.bytes;
        }
    }
    return names.choose({bytes.begin(), bytes.end()}, at_most);
}

// The pages that have this form, by their probes.
inline constexpr std::string_view cuda_allocations_page_name = "allocations";
inline constexpr std::string_view torch_allocations_page_name = "torch_allocations";

// `name`: the allocations of each process by call site, the largest amounts first, as JSON or as
// folded stacks. docs/api.md describes the parameters and the formats.
[[nodiscard]] ApiPage allocations_page(std::string_view name, std::vector<ProcessAllocations> all);

}  // namespace gpusnoop::probes

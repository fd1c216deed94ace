#include "exporter/probes/cuda/memory/gauges.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/memory/call_sites.h"
#include "exporter/probes/cuda/memory/counters.h"
#include "exporter/probes/cuda/memory/state.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

constexpr std::array<std::string_view, age_thresholds.size()> age_names = {"1m", "10m", "1h"};

// The sums over all call sites with that label. Sites that have no label yet are missing.
std::vector<std::pair<std::string_view, std::uint64_t>> heaviest_labels(const Process &process,
                                                                        std::size_t at_most) {
    std::map<std::string_view, std::uint64_t> bytes;
    for (const auto &[site, amount] : state_of<MemoryState>(process).live.sites()) {
        const SiteName &name = CallSites::name_of(process, site);
        if (!name.label.empty()) {
            bytes[name.label] += amount.bytes;
        }
    }
    std::vector<std::pair<std::string_view, std::uint64_t>> labels(bytes.begin(), bytes.end());
    std::ranges::sort(labels, [](const auto &a, const auto &b) {
        return std::tie(b.second, a.first) < std::tie(a.second, b.first);
    });
    labels.resize(std::min(labels.size(), at_most));
    return labels;
}

void add_gauges_of(const Process &process, const MemoryGauges &gauges, nanoseconds now,
                   std::uint32_t sites) {
    const LiveAllocations &live = state_of<MemoryState>(process).live;
    const auto add_outstanding = [&](std::int32_t device, cuda_memory_kind kind, Amount amount) {
        const auto values =
            gauge_labels_of(process, {gpu_of(process, device), memory_kind_names.at(kind)});
        add_gauge(gauges.outstanding_bytes, values, amount.bytes);
        add_gauge(gauges.outstanding_allocations, values, amount.count);
    };
    if (live.parts().empty()) {
        add_outstanding(device_of(process, CUDA_DEVICE_UNCHOSEN), MEMORY_device, {});
    }
    for (const auto &[part, amount] : live.parts()) {
        add_outstanding(part.first, part.second, amount);
    }
    const auto aged = live.aged_bytes(now);
    for (std::size_t i = 0; i < aged.size(); i++) {
        add_gauge(gauges.aged_bytes, gauge_labels_of(process, {age_names[i]}), aged[i]);
    }
    for (const auto &[label, bytes] : heaviest_labels(process, sites)) {
        add_gauge(gauges.site_bytes, gauge_labels_of(process, {label}), bytes);
    }
}

}  // namespace

void add_memory_gauges(series::FamilySet &gauges, const CudaProcessTable &processes,
                       nanoseconds now, std::uint32_t sites) {
    const MemoryGauges families = make_memory_gauges(gauges);
    processes.for_each([&](const Process &process) {
        if (!process.ended) {
            add_gauges_of(process, families, now, sites);
        }
    });
}

}  // namespace gpusnoop::probes

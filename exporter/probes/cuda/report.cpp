// The part of the CUDA aggregator that says what it knows.
#include <algorithm>
#include <iterator>
#include <tuple>

#include "exporter/probes/cuda/aggregator.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

constexpr std::array<std::string_view, age_thresholds.size()> age_names = {"1m", "10m", "1h"};

std::string_view name_of(Linkage linkage) {
    switch (linkage) {
        case Linkage::shared:
            return "shared";
        case Linkage::statically:
            return "static";
        case Linkage::driver_only:
            return "driver_only";
        case Linkage::unknown:
            break;
    }
    return "unknown";
}

std::vector<std::pair<Site, Amount>> heaviest_first(const AllocationBook &book) {
    std::vector<std::pair<Site, Amount>> sites(book.sites().begin(), book.sites().end());
    std::ranges::sort(sites, [](const auto &a, const auto &b) {
        return std::pair(b.second.bytes, a.first) < std::pair(a.second.bytes, b.first);
    });
    return sites;
}

// Of all call sites that have the label, as far as they have one yet.
std::vector<std::pair<std::string_view, std::uint64_t>> heaviest_labels(const Process &process,
                                                                        std::size_t at_most) {
    std::map<std::string_view, std::uint64_t> bytes;
    for (const auto &[site, amount] : process.book.sites()) {
        const auto name = process.site_names.find(site);
        if (name != process.site_names.end() && !name->second.label.empty()) {
            bytes[name->second.label] += amount.bytes;
        }
    }
    std::vector<std::pair<std::string_view, std::uint64_t>> labels(bytes.begin(), bytes.end());
    std::ranges::sort(labels, [](const auto &a, const auto &b) {
        return std::tie(b.second, a.first) < std::tie(a.second, b.first);
    });
    labels.resize(std::min(labels.size(), at_most));
    return labels;
}

void set(series::Family &family, const series::LabelValues &values, std::uint64_t value) {
    family.add(family.slot(1, values), value);
}

}  // namespace

void CudaAggregator::report_process(const Process &process, CudaGauges &gauges,
                                    nanoseconds now) const {
    const std::string pid = std::to_string(process.key.tgid);
    const auto with = [&](std::initializer_list<std::string_view> own) {
        series::LabelValues values = {process.comm, process.container, pid};
        values.insert(values.end(), own.begin(), own.end());
        return values;
    };
    if (process.book.parts().empty()) {
        const std::string gpu = gpu_of(process, device_of(process, CUDA_DEVICE_UNCHOSEN));
        set(gauges.outstanding_bytes, with({gpu, memory_kind_names[MEMORY_device]}), 0);
        set(gauges.outstanding_allocations, with({gpu, memory_kind_names[MEMORY_device]}), 0);
    }
    for (const auto &[part, amount] : process.book.parts()) {
        const auto values = with({gpu_of(process, part.first), memory_kind_names.at(part.second)});
        set(gauges.outstanding_bytes, values, amount.bytes);
        set(gauges.outstanding_allocations, values, amount.count);
    }
    const auto aged = process.book.aged_bytes(now);
    for (std::size_t i = 0; i < aged.size(); i++) {
        set(gauges.aged_bytes, with({age_names[i]}), aged[i]);
    }
    for (const auto &[label, bytes] : heaviest_labels(process, settings_.sites)) {
        set(gauges.site_bytes, with({label}), bytes);
    }
    for (const AsyncCopies::Stream &stream : process.async_copies.streams()) {
        set(gauges.copies_in_flight,
            with({stream.number == 0 ? "default" : std::to_string(stream.number)}), stream.bytes);
    }
    set(gauges.process_info, with({process.exe, process.pod_uid, name_of(process.linkage)}), 1);
}

std::vector<series::FamilySnapshot> CudaAggregator::report(nanoseconds now) {
    series::FamilySet gauge_set(settings_.budget, true);
    CudaGauges gauges = make_cuda_gauges(gauge_set);
    processes_.for_each([&](const Process &process) {
        if (!process.ended) {
            report_process(process, gauges, now);
        }
    });
    for (const discovery::Gpu &gpu : settings_.gpus) {
        set(gauges.gpu_info, {std::to_string(gpu.index), gpu.uuid, gpu.pci_bus_id, gpu.name}, 1);
    }
    // Each page has gauges of its own, so this is the most that did not fit on one page.
    for (const auto &[family, folded] : gauge_set.folded()) {
        std::uint64_t &most = folded_gauges_[family];
        most = std::max(most, folded);
    }
    std::vector<series::FamilySnapshot> snapshots = family_set_.snapshots();
    std::ranges::move(gauge_set.snapshots(), std::back_inserter(snapshots));
    return snapshots;
}

std::vector<ProcessAllocations> CudaAggregator::allocations() const {
    std::vector<ProcessAllocations> all;
    processes_.for_each([&](const Process &process) {
        if (process.ended) {
            return;
        }
        ProcessAllocations &one = all.emplace_back(ProcessAllocations{process.key.tgid,
                                                                      process.comm,
                                                                      process.container,
                                                                      process.pod_uid,
                                                                      process.exe,
                                                                      process.book.all(),
                                                                      {}});
        for (const auto &[site, amount] : heaviest_first(process.book)) {
            const auto name = process.site_names.find(site);
            one.sites.push_back(
                {amount, name != process.site_names.end() ? name->second : SiteName{}});
        }
    });
    return all;
}

std::map<std::string, std::uint64_t> CudaAggregator::folded() const {
    std::map<std::string, std::uint64_t> folded = family_set_.folded();
    folded.insert(folded_gauges_.begin(), folded_gauges_.end());
    return folded;
}

}  // namespace gpusnoop::probes

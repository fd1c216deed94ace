// The CUDA aggregator without BPF: records in, families out.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/cuda/aggregator.h"
#include "tests/unit/probes/cuda/page.h"
#include "tests/unit/probes/cuda/records.h"

namespace gpusnoop::probes {

// An aggregator in a world that notes what it is asked, and whose ring of allocations holds `late`
// records until it is drained once more.
struct Fixture {
    struct AskedSite {
        std::uint64_t ticket;
        std::uint32_t pid;
        Site site;
    };

    std::vector<symbols::CudaKernelRequest> asked;
    std::vector<AskedSite> asked_sites;
    std::vector<std::int32_t> forgotten_stacks;
    std::vector<LiveEntry> forgotten;  // of the kernel's table
    std::vector<LiveEntry> unmapped;
    std::vector<GpuProcessEnd> ends;
    std::vector<GpuProcessTotals> totals;
    std::uint64_t lost_records = 0;
    std::vector<OutOfMemory> out_of_memory;
    // What the table had instead, when next asked to forget.
    std::vector<LiveEntry> briefly_missing;
    std::vector<std::vector<std::byte>> late;
    std::set<std::uint32_t> profiled;  // pids
    std::uint64_t cost_ns = 0;         // of a running process, as the kernel's table has it
    bool complete = true;
    bool complete_by_driver = false;  // once the process is seen to call the driver
    CudaSettings settings;
    std::unique_ptr<CudaAggregator> aggregator;

    explicit Fixture(CudaSettings with = {}) : settings(std::move(with)) {
        aggregator = std::make_unique<CudaAggregator>(settings, callbacks());
    }

    CudaCallbacks callbacks() {
        return {
            .catch_up =
                [this] {
                    for (const auto &record : std::exchange(late, {})) {
                        aggregator->on_allocations_record(record);
                    }
                },
            .remember_executable = [](const auto &) {},
            .ask_for_kernel = [this](auto request) { asked.push_back(request); },
            .ask_for_site =
                [this](std::uint64_t ticket, const Process &of, const Site &site) {
                    asked_sites.push_back({ticket, of.key.tgid, site});
                },
            .forget_stack = [this](std::int32_t stack) { forgotten_stacks.push_back(stack); },
            // Its devices are the node's, from the fifth GPU on.
            .describe =
                [this](Process &one) {
                    one.is_complete = complete;
                    one.gpu_name = [](std::optional<std::uint32_t> ordinal) {
                        return ordinal && *ordinal < 8 ? std::to_string(*ordinal + 4) : "unknown";
                    };
                },
            .has_all_calls =
                [this](const Process &one) {
                    return complete || (complete_by_driver && one.calls_driver);
                },
            .has_profiler = [this](const ProcessKey &one) { return profiled.contains(one.tgid); },
            .cost_of = [this](const ProcessKey &) { return cost_ns; },
            .forget_live =
                [this](std::span<const LiveEntry> entries) {
                    forgotten.insert(forgotten.end(), entries.begin(), entries.end());
                    return std::exchange(briefly_missing, {});
                },
            .end_mappings =
                [this](std::span<const LiveEntry> mappings) {
                    unmapped.insert(unmapped.end(), mappings.begin(), mappings.end());
                },
            .out_of_memory = [this](const OutOfMemory &event) { out_of_memory.push_back(event); },
            .left_unfreed = [this](const GpuProcessEnd &end) { ends.push_back(end); },
            .process_done = [this](const GpuProcessTotals &of) { totals.push_back(of); },
            .lost_records = [this] { return lost_records; }};
    }

    template <typename T>
    void allocations(const T &record) const {
        aggregator->on_allocations_record(std::as_bytes(std::span(&record, 1)));
    }
    template <typename T>
    void calls(const T &record) const {
        aggregator->on_calls_record(std::as_bytes(std::span(&record, 1)));
    }
    template <typename T>
    void later(const T &record) {
        const auto bytes = std::as_bytes(std::span(&record, 1));
        late.emplace_back(bytes.begin(), bytes.end());
    }
    void apply_all() const { aggregator->apply_until(std::chrono::nanoseconds::max()); }

    // Answers every question for a kernel's name that was not answered yet.
    void name_kernels(const std::string &name) {
        for (const auto &request : std::exchange(asked, {})) {
            aggregator->on_kernel_name({request.ticket, name});
        }
        apply_all();
    }
    // The site's stack is of this one function.
    void name_site(std::size_t index, const std::string &function) const {
        aggregator->on_site_name({asked_sites.at(index).ticket, {{function, "program", 1}}});
    }

    [[nodiscard]] Page page(const std::string &name) const {
        return page_of(aggregator->report(std::chrono::seconds(5'000)), name);
    }
    [[nodiscard]] std::uint64_t sum(const std::string &name,
                                    const std::vector<std::string> &labels = {}) const {
        return sum_of(page(name), labels);
    }
};

}  // namespace gpusnoop::probes

// What one part of the CUDA aggregator needs, without the aggregator and the other parts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/series/family_set.h"
#include "tests/unit/probes/cuda/page.h"
#include "tests/unit/probes/cuda/records.h"

namespace gpusnoop::probes {

// The processes' devices are the node's, and all their calls are seen.
struct PartFixture {
    series::FamilySet families{[](std::string_view) { return 2'000U; }, false};
    CudaCallbacks callbacks;
    std::function<void(Process &)> on_start;  // of each process: the part's started()
    CudaProcessTable processes{families,
                               {.budget = {},
                                .look_up =
                                    [](ProcessIdentity &identity) {
                                        auto &process = static_cast<Process &>(identity);
                                        process.comm = "python";
                                        process.is_complete = true;
                                        process.gpu_name = [](auto ordinal) {
                                            return ordinal ? std::to_string(*ordinal) : "unknown";
                                        };
                                        return true;
                                    }},
                               {},
                               [this] {
                                   auto process = std::make_unique<Process>();
                                   on_start(*process);
                                   return process;
                               }};

    explicit PartFixture(std::function<void(Process &)> start) : on_start(std::move(start)) {}

    Process &process(std::uint32_t pid = bench_pid) { return processes.of({pid, bench_since}); }

    [[nodiscard]] Page page(const std::string &name) const {
        return page_of(families.snapshots(), name);
    }
    [[nodiscard]] std::uint64_t sum(const std::string &name,
                                    const std::vector<std::string> &labels = {}) const {
        return sum_of(page(name), labels);
    }
};

}  // namespace gpusnoop::probes

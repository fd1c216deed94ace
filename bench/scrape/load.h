// Probes without BPF that have the data of a busy node: the real aggregators, with records of
// programs that allocate, copy, launch kernels and call functions.
#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "exporter/probes/frame/pipeline.h"
#include "exporter/probes/frame/probe.h"

namespace gpusnoop::bench {

class Load {
public:
    // About this number of series, with one program for each thousand. No family folds any.
    explicit Load(std::size_t series);
    ~Load();
    Load(const Load &) = delete;
    Load &operator=(const Load &) = delete;

    [[nodiscard]] std::vector<probes::Probe *> probes() const;

private:
    class Cuda;
    class Func;
    Load(std::size_t programs, std::size_t functions);
    static std::size_t functions_for(std::size_t series, std::size_t programs);

    std::unique_ptr<Cuda> cuda_;
    std::unique_ptr<Func> functions_;
};

// The exporter's metrics of itself with such a page.
std::vector<prometheus::MetricFamily> own_families(const probes::Snapshot &snapshot,
                                                   const std::vector<probes::Probe *> &probes);

// All samples of the present page.
std::vector<prometheus::MetricFamily> families_of(const probes::Snapshot &snapshot,
                                                  const std::vector<probes::Probe *> &probes);

// The number of lines without comments.
std::size_t samples_in(std::string_view text);

}  // namespace gpusnoop::bench

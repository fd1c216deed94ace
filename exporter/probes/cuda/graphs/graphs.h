// Follows the captures of streams and the changes of graphs, to know what each launch of a graph
// runs.
#pragma once

#include <cstddef>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/graphs/content.h"
#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

// Records must come in the order in which their calls ended.
class CudaGraphs {
public:
    explicit CudaGraphs(series::FamilySet &families) : families_(make_graph_families(families)) {}

    static void started(Process &process);

    // `copy_kind`: of a record that holds a copy, as CudaCopies::kind_of() has it.
    void on_captured(Process &process, const cuda_change_record &record, std::size_t copy_kind);
    static void on_change(Process &process, const cuda_change_record &record,
                          std::size_t copy_kind);
    // Counts the launch. Returns what it runs, until the next record; null: not known.
    const GraphContent *on_launch(Process &process, const cuda_graph_record &record);
    // The process has launched a graph of which it is not known what it runs.
    [[nodiscard]] static bool has_launched_unknown(const Process &process);

private:
    struct State;

    GraphFamilies families_;
};

}  // namespace gpusnoop::probes

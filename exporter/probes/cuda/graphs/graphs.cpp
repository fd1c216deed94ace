#include "exporter/probes/cuda/graphs/graphs.h"

#include <array>
#include <optional>
#include <string_view>

#include "exporter/probes/cuda/graphs/known_graphs.h"

namespace gpusnoop::probes {

namespace {

// By enum cuda_node.
constexpr std::array<std::string_view, 6> operation_names = {"launch",   "copy", "memset",
                                                             "allocate", "free", "graph"};

GraphWork work_of(const Process &process, const cuda_change_record &record, std::size_t copy_kind) {
    GraphWork work;
    work.does = static_cast<cuda_node>(record.holds);
    work.launch.device = device_of(process, record.head.device);
    if (work.does == CUDA_NODE_LAUNCH) {
        const auto &[grid, block] = record.detail.launch;
        work.launch.kernel = record.address;
        work.launch.grid = {grid[0], grid[1], grid[2]};
        work.launch.block = {block[0], block[1], block[2]};
    } else {
        work.copy_kind = copy_kind;
        work.bytes = record.detail.copy.bytes;
    }
    return work;
}

}  // namespace

struct CudaGraphs::State final : PartState {
    static constexpr Part part = Part::graphs;

    KnownGraphs known;
    std::array<std::optional<series::Slot>, operation_names.size()> captured;
    tsl::robin_map<std::uint64_t, series::Slot> launches;  // device, is it known?
    bool has_unknown = false;                              // among those launched
};

void CudaGraphs::started(Process &process) {
    add_state<State>(process);
}

void CudaGraphs::on_captured(Process &process, const cuda_change_record &record,
                             std::size_t copy_kind) {
    if (record.holds >= operation_names.size()) {
        return;
    }
    auto &state = state_of<State>(process);
    std::optional<series::Slot> &slot = state.captured[record.holds];
    if (!slot) {
        slot = families_.captured.slot(process.owner,
                                       labels_of(process, {operation_names[record.holds]}));
    }
    families_.captured.add(*slot, 1);
    state.known.note_losses(record.losses);
    state.known.capture(record, work_of(process, record, copy_kind));
}

void CudaGraphs::on_change(Process &process, const cuda_change_record &record,
                           std::size_t copy_kind) {
    KnownGraphs &known = state_of<State>(process).known;
    known.note_losses(record.losses);
    known.change(record, work_of(process, record, copy_kind));
}

const GraphContent *CudaGraphs::on_launch(Process &process, const cuda_graph_record &record) {
    auto &state = state_of<State>(process);
    state.known.note_losses(static_cast<std::uint32_t>(record.losses));
    const GraphContent *const content = state.known.executable(record.executable);
    const std::int32_t device = device_of(process, record.head.device);
    const std::uint64_t key = slot_key(device, content != nullptr ? 1 : 0);
    auto found = state.launches.find(key);
    if (found == state.launches.end()) {
        const auto values =
            labels_of(process, {content != nullptr ? "known" : "unknown", gpu_of(process, device)});
        found =
            state.launches.try_emplace(key, families_.launches.slot(process.owner, values)).first;
    }
    families_.launches.add(found->second, 1);
    state.has_unknown = state.has_unknown || content == nullptr;
    return content;
}

bool CudaGraphs::has_launched_unknown(const Process &process) {
    return state_of<State>(process).has_unknown;
}

}  // namespace gpusnoop::probes

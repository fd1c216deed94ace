// Follows the captures of streams and the changes of graphs, to know what each launch of a graph
// runs.
#pragma once

#include <tsl/robin_map.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/graphs/content.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/processes/user_room.h"

namespace gpusnoop::probes {

// For what graphs run, of all processes together.
inline constexpr UserRoom::Limits room_for_graphs{.bytes = std::size_t{128} << 20,
                                                  .bytes_of_user = std::size_t{64} << 20};

// Records must come in the order in which their calls ended.
class CudaGraphs {
public:
    explicit CudaGraphs(series::FamilySet &families,
                        const UserRoom::Limits &limits = room_for_graphs)
        : families_(make_graph_families(families)), room_(std::make_shared<UserRoom>(limits)) {}

    static void started(Process &process);

    // `copy_kind`: of a record that holds a copy, as CudaCopies::kind_of() has it.
    void on_captured(Process &process, const cuda_change_record &record, std::size_t copy_kind);
    void on_change(Process &process, const cuda_change_record &record, std::size_t copy_kind);
    // Counts the launch. Returns what it runs, until the next record; null: not known.
    const GraphContent *on_launch(Process &process, const cuda_graph_record &record);
    // The process has launched a graph of which it is not known what it runs.
    [[nodiscard]] static bool has_launched_unknown(const Process &process);

private:
    struct State;

    void find_room(Process &process);

    GraphFamilies families_;
    std::shared_ptr<UserRoom> room_;
};

// Per process, of each kind; further ones are unknown.
inline constexpr std::size_t max_graphs = 16'384;
// Per process, of all contents together: shapes of kernels, kinds of copies, nodes.
inline constexpr std::size_t max_graph_entries = 131'072;

// The captures, graphs and executable graphs of one process, by their handles.
class KnownGraphs {
public:
    // Of the user's room for entries. To be called before there are any.
    void limit_by(UserShare share) { budget_.limit_by(std::move(share)); }
    [[nodiscard]] bool is_limited() const { return budget_.is_limited(); }

    // So many records were lost so far. A new loss makes everything unknown.
    void note_losses(std::uint32_t losses);

    // A captured call, and what it does.
    void capture(const cuda_change_record &record, GraphWork work);
    // A change, and what its node does from now on.
    void change(const cuda_change_record &record, GraphWork work);
    // What a launch of it runs; null: not known.
    [[nodiscard]] const GraphContent *executable(std::uint64_t handle) const;

    // Of the budget of entries.
    [[nodiscard]] std::size_t entries() const { return budget_.used(); }

private:
    // Contents are shared until one of their owners changes its own.
    using ContentPtr = std::shared_ptr<GraphContent>;
    struct Graph {
        ContentPtr content;
        std::uint64_t born_ns = 0;
        bool is_being_captured = false;  // nodes were added to a graph that was not seen being made
    };
    struct Capture {
        ContentPtr content;
        std::uint64_t into = 0;  // the graph that it adds to; 0: to a new one
    };
    using Graphs = tsl::robin_map<std::uint64_t, Graph>;

    static GraphContent &edit(ContentPtr &content);
    // Null: it is unknown.
    static ContentPtr content_of(const Graphs &graphs, std::uint64_t handle);
    void put(Graphs &graphs, std::uint64_t handle, ContentPtr content,
             const cuda_change_record &record) const;

    void begin_capture(const cuda_change_record &record);
    void end_capture(const cuda_change_record &record);
    void put_graph(std::uint64_t handle, ContentPtr content, const cuda_change_record &record);
    void destroy(const cuda_change_record &record);
    void remove_graph(std::uint64_t handle);
    void add_node(const cuda_change_record &record, GraphWork work);
    void change_node(const cuda_change_record &record, GraphWork work);
    void change_executable(const cuda_change_record &record, GraphWork work);
    void instantiate(const cuda_change_record &record);
    void update(const cuda_change_record &record);
    void forget_unnamed();

    EntryBudget budget_{max_graph_entries};
    std::uint32_t losses_ = 0;
    tsl::robin_map<std::uint64_t, Capture> captures_;
    Graphs graphs_;
    Graphs executables_;
    tsl::robin_map<std::uint64_t, std::uint64_t> owners_;  // node -> its graph
};

}  // namespace gpusnoop::probes

#include "exporter/probes/cuda/graphs/graphs.h"

#include <array>
#include <optional>
#include <string_view>

#include "bpf/cuda/functions.h"

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

void CudaGraphs::find_room(Process &process) {
    if (KnownGraphs &known = state_of<State>(process).known; !known.is_limited()) {
        known.limit_by(UserShare(room_, process.uid));
    }
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
    find_room(process);
    state.known.note_losses(record.losses);
    state.known.capture(record, work_of(process, record, copy_kind));
}

void CudaGraphs::on_change(Process &process, const cuda_change_record &record,
                           std::size_t copy_kind) {
    find_room(process);
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

namespace {

std::uint64_t began_ns(const cuda_record &head) {
    return head.ended_ns - head.duration_ns;
}

}  // namespace

// ---- tables ----

GraphContent &KnownGraphs::edit(ContentPtr &content) {
    if (content.use_count() > 1) {
        content = std::make_shared<GraphContent>(std::as_const(*content));
    }
    return *content;
}

KnownGraphs::ContentPtr KnownGraphs::content_of(const Graphs &graphs, std::uint64_t handle) {
    const auto found = graphs.find(handle);
    return found != graphs.end() && found->second.content->is_known() &&
                   !found->second.is_being_captured
               ? found->second.content
               : nullptr;
}

// A handle that is given again is another graph.
void KnownGraphs::put(Graphs &graphs, std::uint64_t handle, ContentPtr content,
                      const cuda_change_record &record) const {
    graphs.erase(handle);
    if (content && graphs.size() < max_graphs && budget_.has_room_for(1)) {
        graphs.try_emplace(handle, Graph{std::move(content), record.head.ended_ns, false});
    }
}

const GraphContent *KnownGraphs::executable(std::uint64_t handle) const {
    return content_of(executables_, handle).get();
}

void KnownGraphs::note_losses(std::uint32_t losses) {
    if (losses > losses_) {
        losses_ = losses;
        captures_.clear();
        graphs_.clear();
        executables_.clear();
        owners_.clear();
    }
}

// ---- captures ----

void KnownGraphs::capture(const cuda_change_record &record, GraphWork work) {
    const auto found = captures_.find(record.handle);
    if (found == captures_.end()) {
        return;
    }
    if (work.does == CUDA_NODE_GRAPH) {
        work.child = content_of(executables_, record.address);
    }
    Capture &capture = found.value();
    if (capture.into == 0) {
        edit(capture.content).add(work);
    } else if (const auto graph = graphs_.find(capture.into); graph != graphs_.end()) {
        edit(graph.value().content).add(work);
    }
}

void KnownGraphs::begin_capture(const cuda_change_record &record) {
    if (captures_.size() < max_graphs && budget_.has_room_for(1)) {
        captures_.insert_or_assign(record.handle,
                                   Capture{std::make_shared<GraphContent>(budget_), record.node});
    }
}

// Programs may add nodes to the graph of a capture by its handle, before the capture gives it to
// them.
void KnownGraphs::end_capture(const cuda_change_record &record) {
    const auto found = captures_.find(record.handle);
    if (found == captures_.end()) {  // it began unseen
        return remove_graph(record.node);
    }
    const Capture capture = found->second;
    captures_.erase(found);
    if (capture.into != 0) {
        if (record.head.result != 0) {
            remove_graph(capture.into);
        }
        return;
    }
    if (record.node == 0) {
        return;
    }
    const auto graph = graphs_.find(record.node);
    if (graph != graphs_.end() && graph->second.is_being_captured) {
        graph.value().is_being_captured = false;
        graph.value().born_ns = record.head.ended_ns;
        edit(graph.value().content).add(*capture.content);
        return;
    }
    put_graph(record.node, capture.content, record);
}

// ---- graphs ----

void KnownGraphs::remove_graph(std::uint64_t handle) {
    const auto found = graphs_.find(handle);
    if (found == graphs_.end()) {
        return;
    }
    for (const auto &[node, of] : found->second.content->nodes()) {
        owners_.erase(node);
    }
    graphs_.erase(found);
}

void KnownGraphs::put_graph(std::uint64_t handle, ContentPtr content,
                            const cuda_change_record &record) {
    remove_graph(handle);
    put(graphs_, handle, std::move(content), record);
}

// Another thread can have got the same handle before the call returned.
void KnownGraphs::destroy(const cuda_change_record &record) {
    const bool is_graph = record.operation == CUDA_DESTROY_GRAPH;
    const Graphs &graphs = is_graph ? graphs_ : executables_;
    const auto found = graphs.find(record.handle);
    if (found == graphs.end() || found->second.born_ns > began_ns(record.head)) {
        return;
    }
    if (is_graph) {
        remove_graph(record.handle);
    } else {
        executables_.erase(record.handle);
    }
}

void KnownGraphs::change(const cuda_change_record &record, GraphWork work) {
    if (work.does == CUDA_NODE_GRAPH) {
        work.child = content_of(graphs_, record.address);
    }
    switch (record.operation) {
        case CUDA_BEGIN_CAPTURE:
            return begin_capture(record);
        case CUDA_END_CAPTURE:
            return end_capture(record);
        case CUDA_CREATE_GRAPH:
            return put_graph(record.handle, std::make_shared<GraphContent>(budget_), record);
        case CUDA_CLONE_GRAPH: {
            const ContentPtr original = content_of(graphs_, record.node);
            return put_graph(record.handle, original ? original->clone() : nullptr, record);
        }
        case CUDA_UPDATE_EXECUTABLE:
            return update(record);
        case CUDA_INSTANTIATE:
            return instantiate(record);
        case CUDA_DESTROY_GRAPH:
        case CUDA_DESTROY_EXECUTABLE:
            return destroy(record);
        case CUDA_ADD_NODE:
            return add_node(record, std::move(work));
        case CUDA_SET_NODE:
        case CUDA_DESTROY_NODE:
        case CUDA_GET_CHILD:
            return change_node(record, std::move(work));
        case CUDA_SET_EXECUTABLE_NODE:
        case CUDA_ENABLE_NODE:
            return change_executable(record, std::move(work));
        default:
            return;
    }
}

void KnownGraphs::add_node(const cuda_change_record &record, GraphWork work) {
    auto found = graphs_.find(record.handle);
    if (found == graphs_.end()) {
        // Unless a capture makes it, it stays unknown.
        if (captures_.empty() || graphs_.size() >= max_graphs || !budget_.has_room_for(1)) {
            return;
        }
        found = graphs_
                    .try_emplace(record.handle, Graph{std::make_shared<GraphContent>(budget_),
                                                      record.head.ended_ns, true})
                    .first;
    }
    GraphContent &content = edit(found.value().content);
    content.add_node(record.node, std::move(work));
    if (content.has_node(record.node)) {
        owners_.insert_or_assign(record.node, record.handle);
    }
}

// A node that we know of no graph may belong to any graph that has such nodes.
void KnownGraphs::change_node(const cuda_change_record &record, GraphWork work) {
    const auto owner = owners_.find(record.node);
    const auto found = owner == owners_.end() ? graphs_.end() : graphs_.find(owner->second);
    if (found == graphs_.end()) {
        if (record.operation != CUDA_SET_NODE || work.does != CUDA_NODE_NOTHING) {
            forget_unnamed();
        }
        return;
    }
    switch (record.operation) {
        case CUDA_SET_NODE:
            return edit(found.value().content).set_node(record.node, std::move(work));
        case CUDA_DESTROY_NODE:
            owners_.erase(owner);
            return edit(found.value().content).remove_node(record.node);
        default:  // the program can change the child's nodes, which we do not know
            return remove_graph(found->first);
    }
}

void KnownGraphs::forget_unnamed() {
    for (auto graph = graphs_.begin(); graph != graphs_.end(); ++graph) {
        if (graph->second.content->has_unnamed()) {
            edit(graph.value().content).forget();
        }
    }
}

// Also where the graph is unknown: an update can make it known, as no node of it is disabled.
void KnownGraphs::instantiate(const cuda_change_record &record) {
    ContentPtr content = content_of(graphs_, record.node);
    if (!content) {
        content = std::make_shared<GraphContent>(budget_);
        content->forget();
    }
    put(executables_, record.handle, std::move(content), record);
}

// Of an executable graph that was not seen being made, nodes may be disabled.
void KnownGraphs::update(const cuda_change_record &record) {
    const auto found = executables_.find(record.handle);
    if (found == executables_.end()) {
        return;
    }
    GraphContent &content = edit(found.value().content);
    if (const ContentPtr other = content_of(graphs_, record.node)) {
        content.update(*other);
    } else {
        content.forget();
    }
}

// The node is the one of the graph that the executable graph was made from.
void KnownGraphs::change_executable(const cuda_change_record &record, GraphWork work) {
    const auto found = executables_.find(record.handle);
    if (found == executables_.end()) {
        return;
    }
    GraphContent &content = edit(found.value().content);
    const bool has_node = content.has_node(record.node);
    if (record.operation == CUDA_ENABLE_NODE) {
        const bool is_enabled = record.address != 0;
        has_node ? content.enable_node(record.node, is_enabled)
                 : content.enable_unnamed(is_enabled);
    } else if (has_node) {
        content.set_node(record.node, std::move(work));
    } else if (work.does != CUDA_NODE_NOTHING) {
        content.forget();
    }
}

}  // namespace gpusnoop::probes

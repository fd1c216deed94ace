// The functions that make graphs executable, change and launch them.

#include "driver/capture.h"
#include "driver/cuda.h"
#include "driver/graph_call.h"
#include "driver/node_work.h"
#include "driver/objects.h"
#include "driver/shapes.h"
#include "driver/truth_writer.h"

#include <algorithm>

namespace standin {
namespace {

using truth::Function;

int instantiate(GraphExec *executable, Graph graph) {
    const GraphContent *content = graph_of(graph);
    if (executable == nullptr || content == nullptr) {
        return kInvalidValue;
    }
    *executable = own(copy_of(*content, true));
    return kSuccess;
}

int instantiate_call(Function self, GraphExec *executable, Graph graph) {
    return graph_call(self, [&](const Call &) { return instantiate(executable, graph); });
}

int instantiate_call(Function self, GraphExec *executable, Graph graph,
                     InstantiateParameters *parameters) {
    return graph_call(self, [&](const Call &) -> int {
        if (parameters == nullptr) {
            return kInvalidValue;
        }
        const int error = instantiate(executable, graph);
        parameters->error_node = nullptr;
        parameters->result = error == kSuccess ? 0 : 1;
        return error;
    });
}

int destroy_executable(GraphExec executable) {
    if (executable_of(executable) == nullptr) {
        return kInvalidResourceHandle;
    }
    forget(executable);
    return kSuccess;
}

// The directions of copies stay, and so do copies and memsets of more than one row.
bool can_become(const Work &from, const Work &to) {
    const bool same = from.bytes == to.bytes && from.is_flat == to.is_flat;
    return from.type == to.type && from.direction == to.direction &&
           (same || (from.is_flat && to.is_flat));
}

bool same_edges(const GraphContent &one, const GraphContent &other, std::size_t at) {
    const auto places = [](const GraphContent &graph, const NodeObject &node) {
        std::vector<std::size_t> found;
        for (std::size_t place = 0; place < graph.nodes.size(); ++place) {
            if (std::ranges::find(node.dependencies, graph.nodes[place].get()) !=
                node.dependencies.end()) {
                found.push_back(place);
            }
        }
        return found;
    };
    return places(one, *one.nodes[at]) == places(other, *other.nodes[at]);
}

// Nodes pair up in the order of their creation.
UpdateInfo compare(const GraphContent &executable, const GraphContent &graph) {
    if (has_memory(executable) || has_memory(graph)) {
        return {kUpdateNotSupported, nullptr, nullptr};
    }
    if (executable.nodes.size() != graph.nodes.size()) {
        return {kUpdateTopologyChanged, nullptr, nullptr};
    }
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
        const Work &from = executable.nodes[at]->work;
        const Work &to = graph.nodes[at]->work;
        if (from.type != to.type) {
            return {kUpdateNodeTypeChanged, graph.nodes[at].get(), nullptr};
        }
        if (!same_edges(executable, graph, at)) {
            return {kUpdateTopologyChanged, graph.nodes[at].get(), nullptr};
        }
        if (from.child != nullptr) {
            if (const UpdateInfo inside = compare(*from.child, *to.child);
                inside.result != kUpdateSuccess) {
                return inside;
            }
        } else if (!can_become(from, to)) {
            return {kUpdateParametersChanged, graph.nodes[at].get(), nullptr};
        }
    }
    return {};
}

// Of the same topology.
void take_over(GraphContent &executable, const GraphContent &graph) {
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
        Work &to = executable.nodes[at]->work;
        if (to.child != nullptr) {
            take_over(*to.child, *graph.nodes[at]->work.child);
        } else {
            to = graph.nodes[at]->work;
        }
    }
}

int update(GraphExec handle, Graph graph, UpdateInfo &info) {
    GraphContent *executable = executable_of(handle);
    const GraphContent *content = graph_of(graph);
    if (executable == nullptr || content == nullptr) {
        info.result = kUpdateError;
        return kInvalidValue;
    }
    info = compare(*executable, *content);
    if (info.result != kUpdateSuccess) {
        return kGraphUpdateFailure;
    }
    take_over(*executable, *content);
    return kSuccess;
}

int update_call(Function self, GraphExec executable, Graph graph, UpdateInfo *out) {
    return graph_call(self, [&](const Call &) {
        UpdateInfo info;
        const int error = update(executable, graph, info);
        if (out != nullptr) {
            *out = info;
        }
        return error;
    });
}

// Also inside the graphs of its nodes.
NodeObject *find_origin(const GraphContent &content, std::uint64_t id) {
    for (const auto &node : content.nodes) {
        if (node->origin == id) {
            return node.get();
        }
        NodeObject *inside = node->work.child ? find_origin(*node->work.child, id) : nullptr;
        if (inside != nullptr) {
            return inside;
        }
    }
    return nullptr;
}

// What stands in the executable graph for a node of the graph that it was made from.
NodeObject *executable_node(GraphExec executable, GraphNode node) {
    const GraphContent *content = executable_of(executable);
    const NodeObject *original = node_of(node);
    return content == nullptr || original == nullptr ? nullptr
                                                     : find_origin(*content, original->id);
}

template <typename Describe>
int change_call(Function self, GraphExec executable, GraphNode handle, Describe &&describe) {
    return graph_call(self, [&](const Call &open) -> int {
        NodeObject *node = executable_node(executable, handle);
        Work work;
        if (node == nullptr) {
            return kInvalidValue;
        }
        if (const int error = describe(open, work); error != kSuccess) {
            return error;
        }
        if (work.child != nullptr && node->work.child != nullptr) {
            if (compare(*node->work.child, *work.child).result != kUpdateSuccess) {
                return kInvalidValue;
            }
            take_over(*node->work.child, *work.child);
            return kSuccess;
        }
        if (!can_become(node->work, work)) {
            return kInvalidValue;
        }
        node->work = std::move(work);
        return kSuccess;
    });
}

int enable(GraphExec executable, GraphNode handle, bool enabled) {
    NodeObject *node = executable_node(executable, handle);
    if (node == nullptr || node->work.type > kSetNode) {
        return kInvalidValue;
    }
    node->enabled = enabled;
    return kSuccess;
}

int is_enabled(GraphExec executable, GraphNode handle, unsigned *enabled) {
    const NodeObject *node = executable_node(executable, handle);
    if (node == nullptr || node->work.type > kSetNode || enabled == nullptr) {
        return kInvalidValue;
    }
    *enabled = node->enabled ? 1 : 0;
    return kSuccess;
}

int upload_call(Function self, GraphExec executable, Stream stream) {
    return graph_call(self, [&](const Call &) -> int {
        return executable_of(executable) == nullptr || !is_stream(stream) ? kInvalidResourceHandle
                                                                          : kSuccess;
    });
}

// All nodes that are enabled, those of child graphs too.
void gather(const GraphContent &content, std::vector<Work> &all) {
    for (const auto &node : content.nodes) {
        if (node->work.child != nullptr) {
            gather(*node->work.child, all);
        } else if (node->enabled) {
            all.push_back(node->work);
            all.back().memory = nullptr;
        }
    }
}

void count_work(const Work &work, Device device) {
    switch (work.type) {
        case kKernelNode:
            count_launch(device, truth::LaunchedBy::graph, work.kernel.c_str(), work.grid,
                         work.block);
            break;
        case kCopyNode:
            count_copy(device, work.direction, truth::CopyMode::graph, work.bytes);
            break;
        case kSetNode:
            count_set(device, truth::CopyMode::graph, work.bytes);
            break;
        default:
            break;
    }
}

// Kernels and copies have no effect, but functions of the host are called, and events recorded.
void do_work(const Work &work) {
    if (work.type == kHostNode) {
        work.function(work.argument);
    } else if (work.type == kEventRecordNode) {
        record_event(work.event);
    }
}

int launch(const Call &open, const Current &current, GraphExec executable, Stream stream) {
    if (const auto result = capture_graph(open, stream, executable)) {
        return *result;
    }
    std::vector<Work> all;
    {
        const auto lock = lock_graphs();
        const GraphContent *content = executable_of(executable);
        if (content == nullptr) {
            return kInvalidResourceHandle;
        }
        gather(*content, all);
    }
    if (counts(open)) {
        count_graph_launch(current.device);
        for (const Work &work : all) {
            count_work(work, current.device);
        }
    }
    std::ranges::for_each(all, do_work);
    return kSuccess;
}

int launch_call(Function self, GraphExec executable, Stream stream) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        if (!is_stream(stream)) {
            return kInvalidResourceHandle;
        }
        run_hook(open);
        return launch(open, current, executable, stream);
    });
}

}  // namespace
}  // namespace standin

using namespace standin;

// The node of an executable graph gets other parameters.
#define STANDIN_EXEC_CHANGE(name, parameters, work_of) \
    STANDIN_DEFINE(                                    \
        name, parameters,                              \
        change_call(self, executable, node,            \
                    [&]([[maybe_unused]] const Call &open, Work &work) { return work_of; }))

extern "C" {

STANDIN_DEFINE(cuGraphInstantiate,
               (GraphExec * executable, Graph graph, GraphNode * /*error_node*/, char * /*log*/,
                std::size_t /*log_bytes*/),
               instantiate_call(self, executable, graph))
STANDIN_DEFINE(cuGraphInstantiate_v2,
               (GraphExec * executable, Graph graph, GraphNode * /*error_node*/, char * /*log*/,
                std::size_t /*log_bytes*/),
               instantiate_call(self, executable, graph))
STANDIN_DEFINE(cuGraphInstantiateWithFlags,
               (GraphExec * executable, Graph graph, std::uint64_t /*flags*/),
               instantiate_call(self, executable, graph))
STANDIN_DEFINE_BOTH(cuGraphInstantiateWithParams, _ptsz,
                    (GraphExec * executable, Graph graph, InstantiateParameters *parameters),
                    instantiate_call(self, executable, graph, parameters))
STANDIN_DEFINE(cuGraphExecDestroy, (GraphExec executable),
               graph_call(self, [&](const Call &) { return destroy_executable(executable); }))

STANDIN_DEFINE(cuGraphExecUpdate,
               (GraphExec executable, Graph graph, GraphNode *error_node, int *result),
               graph_call(self, [&](const Call &) -> int {
                   if (error_node == nullptr || result == nullptr) {
                       return kInvalidValue;
                   }
                   UpdateInfo info;
                   const int error = update(executable, graph, info);
                   *error_node = info.error_node;
                   *result = info.result;
                   return error;
               }))
STANDIN_DEFINE(cuGraphExecUpdate_v2, (GraphExec executable, Graph graph, UpdateInfo *info),
               update_call(self, executable, graph, info))

STANDIN_EXEC_CHANGE(cuGraphExecKernelNodeSetParams,
                    (GraphExec executable, GraphNode node, const DriverKernelNode *kernel),
                    kernel_work(kernel, work))
STANDIN_EXEC_CHANGE(cuGraphExecKernelNodeSetParams_v2,
                    (GraphExec executable, GraphNode node, const DriverKernelNode2 *kernel),
                    kernel_work(kernel, work))
STANDIN_EXEC_CHANGE(cuGraphExecMemcpyNodeSetParams,
                    (GraphExec executable, GraphNode node, const DriverCopy3D *copy,
                     Context /*context*/),
                    copy_work(copy, open.copy_kind, work))
STANDIN_EXEC_CHANGE(cuGraphExecMemsetNodeSetParams,
                    (GraphExec executable, GraphNode node, const SetNode *set, Context /*context*/),
                    set_work(set, work))
STANDIN_EXEC_CHANGE(cuGraphExecChildGraphNodeSetParams,
                    (GraphExec executable, GraphNode node, Graph child), child_work(child, work))
STANDIN_EXEC_CHANGE(cuGraphExecNodeSetParams,
                    (GraphExec executable, GraphNode node, DriverAnyNode *parameters),
                    any_work(parameters, open.copy_kind, current_context().id, work))

STANDIN_DEFINE(cuGraphNodeSetEnabled, (GraphExec executable, GraphNode node, unsigned enabled),
               graph_call(self,
                          [&](const Call &) { return enable(executable, node, enabled != 0); }))
STANDIN_DEFINE(cuGraphNodeGetEnabled, (GraphExec executable, GraphNode node, unsigned *enabled),
               graph_call(self,
                          [&](const Call &) { return is_enabled(executable, node, enabled); }))
STANDIN_DEFINE_BOTH(cuGraphUpload, _ptsz, (GraphExec executable, Stream stream),
                    upload_call(self, executable, stream))
STANDIN_DEFINE_BOTH(cuGraphLaunch, _ptsz, (GraphExec executable, Stream stream),
                    launch_call(self, executable, stream))

}  // extern "C"

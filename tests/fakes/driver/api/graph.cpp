// The functions that make graphs of nodes.

#include "driver/capture.h"
#include "driver/cuda.h"
#include "driver/graph_call.h"
#include "driver/node_work.h"

#include <algorithm>

namespace standin {
namespace {

using truth::Function;

struct NewNode {
    GraphNode *out;
    Graph graph;
    const GraphNode *dependencies;
    std::size_t count;
};

// `describe` makes the work; its last parameter is for that.
template <typename Describe>
int add_call(Function self, const NewNode &node, Describe &&describe) {
    return graph_call(self, [&](const Call &open) -> int {
        GraphContent *graph = graph_of(node.graph);
        std::vector<NodeObject *> dependencies;
        if (node.out == nullptr || graph == nullptr ||
            !nodes_of(*graph, node.dependencies, node.count, dependencies)) {
            return kInvalidValue;
        }
        Work work;
        if (const int error = describe(open, work); error != kSuccess) {
            return error;
        }
        *node.out = append(*graph, std::move(work), std::move(dependencies));
        return kSuccess;
    });
}

template <typename Describe>
int change_call(Function self, GraphNode handle, Describe &&describe) {
    return graph_call(self, [&](const Call &open) -> int {
        NodeObject *node = node_of(handle);
        Work work;
        if (node == nullptr) {
            return kInvalidValue;
        }
        if (const int error = describe(open, work); error != kSuccess) {
            return error;
        }
        if (work.type != node->work.type) {
            return kInvalidValue;
        }
        node->work = std::move(work);
        return kSuccess;
    });
}

int destroy_graph(Graph graph) {
    if (owned_graph(graph) == nullptr || graph_of(graph) == nullptr) {
        return kInvalidResourceHandle;
    }
    forget(graph);
    return kSuccess;
}

int clone(Graph *out, Graph original) {
    const GraphContent *graph = graph_of(original);
    if (out == nullptr || graph == nullptr) {
        return kInvalidValue;
    }
    if (has_memory(*graph)) {
        return kNotSupported;
    }
    *out = own(copy_of(*graph, false));
    return kSuccess;
}

int destroy_node(GraphNode handle) {
    GraphContent *of = nullptr;
    NodeObject *node = node_of(handle, &of);
    if (node == nullptr || of->is_executable || is_being_captured(*of)) {
        return kInvalidValue;
    }
    if (has_memory(*of)) {
        return kNotSupported;
    }
    for (const auto &other : of->nodes) {
        std::erase(other->dependencies, node);
    }
    remove(*of, node);
    return kSuccess;
}

// With `nodes`, so many of them as `count` has room for.
int list(Graph handle, GraphNode *nodes, std::size_t *count) {
    const GraphContent *graph = graph_of(handle);
    if (graph == nullptr || count == nullptr) {
        return kInvalidValue;
    }
    for (std::size_t at = 0; nodes != nullptr && at < *count; ++at) {
        nodes[at] = at < graph->nodes.size() ? graph->nodes[at].get() : nullptr;
    }
    *count = nodes == nullptr ? graph->nodes.size() : std::min(*count, graph->nodes.size());
    return kSuccess;
}

int find_in_clone(GraphNode *out, GraphNode original, Graph clone_handle) {
    const NodeObject *node = node_of(original);
    const GraphContent *graph = graph_of(clone_handle);
    if (out == nullptr || node == nullptr || graph == nullptr) {
        return kInvalidValue;
    }
    for (const auto &one : graph->nodes) {
        if (one->origin == node->id) {
            *out = one.get();
            return kSuccess;
        }
    }
    return kInvalidValue;
}

int type_of(GraphNode handle, int *type) {
    const NodeObject *node = node_of(handle);
    if (node == nullptr || type == nullptr) {
        return kInvalidValue;
    }
    *type = node->work.type;
    return kSuccess;
}

int child_of(GraphNode handle, Graph *graph) {
    const NodeObject *node = node_of(handle);
    if (node == nullptr || node->work.child == nullptr || graph == nullptr) {
        return kInvalidValue;
    }
    *graph = node->work.child.get();
    return kSuccess;
}

int any(const Call &open, DriverAnyNode *parameters, Work &work) {
    return any_work(parameters, open.copy_kind, current_context().id, work);
}

}  // namespace
}  // namespace standin

using namespace standin;

// A node is added with `work`, or changed: see the two that use this.
#define STANDIN_ADD(name, parameter, work_of)                                             \
    STANDIN_DEFINE(                                                                       \
        name,                                                                             \
        (GraphNode * node, Graph graph, const GraphNode *dependencies, std::size_t count, \
         parameter),                                                                      \
        add_call(self, {node, graph, dependencies, count},                                \
                 [&]([[maybe_unused]] const Call &open, Work &work) -> int { return work_of; }))
#define STANDIN_CHANGE(name, parameter, work_of)                                            \
    STANDIN_DEFINE(                                                                         \
        name, (GraphNode node, parameter),                                                  \
        change_call(self, node, [&]([[maybe_unused]] const Call &open, Work &work) -> int { \
            return work_of;                                                                 \
        }))

extern "C" {

STANDIN_DEFINE(cuGraphCreate, (Graph * graph, unsigned /*flags*/),
               graph_call(self, [&](const Call &) -> int {
                   if (graph == nullptr) {
                       return kInvalidValue;
                   }
                   *graph = add_graph();
                   return kSuccess;
               }))
STANDIN_DEFINE(cuGraphDestroy, (Graph graph),
               graph_call(self, [&](const Call &) { return destroy_graph(graph); }))
STANDIN_DEFINE(cuGraphClone, (Graph * copy, Graph original),
               graph_call(self, [&](const Call &) { return clone(copy, original); }))

STANDIN_ADD(cuGraphAddKernelNode, const DriverKernelNode *kernel, kernel_work(kernel, work))
STANDIN_ADD(cuGraphAddKernelNode_v2, const DriverKernelNode2 *kernel, kernel_work(kernel, work))
STANDIN_DEFINE(cuGraphAddMemcpyNode,
               (GraphNode * node, Graph graph, const GraphNode *dependencies, std::size_t count,
                const DriverCopy3D *copy, Context /*context*/),
               add_call(self, {node, graph, dependencies, count},
                        [&](const Call &open, Work &work) {
                            return copy_work(copy, open.copy_kind, work);
                        }))
STANDIN_DEFINE(cuGraphAddMemsetNode,
               (GraphNode * node, Graph graph, const GraphNode *dependencies, std::size_t count,
                const SetNode *set, Context /*context*/),
               add_call(self, {node, graph, dependencies, count},
                        [&](const Call &, Work &work) { return set_work(set, work); }))
STANDIN_ADD(cuGraphAddHostNode, const HostNode *host, host_work(host, work))
STANDIN_ADD(cuGraphAddChildGraphNode, Graph child, child_work(child, work))
STANDIN_DEFINE(cuGraphAddEmptyNode,
               (GraphNode * node, Graph graph, const GraphNode *dependencies, std::size_t count),
               add_call(self, {node, graph, dependencies, count},
                        [](const Call &, Work &) { return kSuccess; }))
STANDIN_ADD(cuGraphAddEventRecordNode, Event event, event_work(kEventRecordNode, event, work))
STANDIN_ADD(cuGraphAddEventWaitNode, Event event, event_work(kEventWaitNode, event, work))
STANDIN_ADD(cuGraphAddMemAllocNode, AllocateNode *allocation,
            allocate_work(allocation, current_context().id, work))
STANDIN_ADD(cuGraphAddMemFreeNode, DevicePointer address, free_work(address, work))
STANDIN_ADD(cuGraphAddNode, DriverAnyNode *parameters, any(open, parameters, work))
STANDIN_DEFINE(cuGraphAddNode_v2,
               (GraphNode * node, Graph graph, const GraphNode *dependencies,
                const EdgeData * /*edges*/, std::size_t count, DriverAnyNode *parameters),
               add_call(self, {node, graph, dependencies, count},
                        [&](const Call &open, Work &work) { return any(open, parameters, work); }))

STANDIN_CHANGE(cuGraphKernelNodeSetParams, const DriverKernelNode *kernel,
               kernel_work(kernel, work))
STANDIN_CHANGE(cuGraphKernelNodeSetParams_v2, const DriverKernelNode2 *kernel,
               kernel_work(kernel, work))
STANDIN_CHANGE(cuGraphMemcpyNodeSetParams, const DriverCopy3D *copy,
               copy_work(copy, open.copy_kind, work))
STANDIN_CHANGE(cuGraphMemsetNodeSetParams, const SetNode *set, set_work(set, work))
STANDIN_CHANGE(cuGraphNodeSetParams, DriverAnyNode *parameters, any(open, parameters, work))

STANDIN_DEFINE(cuGraphDestroyNode, (GraphNode node),
               graph_call(self, [&](const Call &) { return destroy_node(node); }))
STANDIN_DEFINE(cuGraphGetNodes, (Graph graph, GraphNode *nodes, std::size_t *count),
               graph_call(self, [&](const Call &) { return list(graph, nodes, count); }))
STANDIN_DEFINE(cuGraphNodeFindInClone, (GraphNode * node, GraphNode original, Graph copy),
               graph_call(self, [&](const Call &) { return find_in_clone(node, original, copy); }))
STANDIN_DEFINE(cuGraphNodeGetType, (GraphNode node, int *type),
               graph_call(self, [&](const Call &) { return type_of(node, type); }))
STANDIN_DEFINE(cuGraphChildGraphNodeGetGraph, (GraphNode node, Graph *graph),
               graph_call(self, [&](const Call &) { return child_of(node, graph); }))

}  // extern "C"

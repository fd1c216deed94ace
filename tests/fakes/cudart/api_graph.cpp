// The functions that make graphs of nodes.

#include "cudart/graph_call.h"

namespace standin {
namespace {

int add_any(truth::Function self, GraphNode *node, Graph graph, const GraphNode *dependencies,
            std::size_t count, RuntimeAnyNode *parameters) {
    return in_context(self, [&](const Call &open) {
        return with_node(open, parameters, [&](DriverAnyNode *same) {
            return driver().cuGraphAddNode(node, graph, dependencies, count, same);
        });
    });
}

}  // namespace
}  // namespace standin

using namespace standin;

#define STANDIN_NEW_NODE \
    GraphNode *node, Graph graph, const GraphNode *dependencies, std::size_t count

extern "C" {

STANDIN_DEFINE(cudaGraphCreate, (Graph * graph, unsigned flags),
               graph_call(self, driver().cuGraphCreate, graph, flags))
STANDIN_DEFINE(cudaGraphDestroy, (Graph graph), graph_call(self, driver().cuGraphDestroy, graph))
STANDIN_DEFINE(cudaGraphClone, (Graph * copy, Graph original),
               graph_call(self, driver().cuGraphClone, copy, original))

STANDIN_DEFINE(cudaGraphAddKernelNode, (STANDIN_NEW_NODE, const KernelNode *kernel),
               in_context(self, [&](const Call &open) {
                   return with_kernel(open, kernel, [&](const DriverKernelNode2 *same) {
                       return driver().cuGraphAddKernelNode_v2(node, graph, dependencies, count,
                                                               same);
                   });
               }))
STANDIN_DEFINE(cudaGraphAddMemcpyNode, (STANDIN_NEW_NODE, const Copy3D *copy),
               in_context(self, [&](const Call &open) {
                   return with_copy(open, copy, [&](const DriverCopy3D *same) {
                       return driver().cuGraphAddMemcpyNode(node, graph, dependencies, count, same,
                                                            nullptr);
                   });
               }))
STANDIN_DEFINE(cudaGraphAddMemcpyNode1D,
               (STANDIN_NEW_NODE, void *to, const void *from, std::size_t bytes, int direction),
               in_context(self, [&](const Call &open) {
                   return with_copy(open, to, from, bytes, direction,
                                    [&](const DriverCopy3D *same) {
                                        return driver().cuGraphAddMemcpyNode(
                                            node, graph, dependencies, count, same, nullptr);
                                    });
               }))
STANDIN_DEFINE(cudaGraphAddMemcpyNodeToSymbol,
               (STANDIN_NEW_NODE, const void *symbol, const void *from, std::size_t bytes,
                std::size_t offset, int direction),
               in_context(self, [&](const Call &open) {
                   return with_symbol(open, symbol, true, from, bytes, offset, direction,
                                      [&](const DriverCopy3D *same) {
                                          return driver().cuGraphAddMemcpyNode(
                                              node, graph, dependencies, count, same, nullptr);
                                      });
               }))
STANDIN_DEFINE(cudaGraphAddMemcpyNodeFromSymbol,
               (STANDIN_NEW_NODE, void *to, const void *symbol, std::size_t bytes,
                std::size_t offset, int direction),
               in_context(self, [&](const Call &open) {
                   return with_symbol(open, symbol, false, to, bytes, offset, direction,
                                      [&](const DriverCopy3D *same) {
                                          return driver().cuGraphAddMemcpyNode(
                                              node, graph, dependencies, count, same, nullptr);
                                      });
               }))
STANDIN_DEFINE(cudaGraphAddMemsetNode, (STANDIN_NEW_NODE, const SetNode *set),
               graph_call(self, driver().cuGraphAddMemsetNode, node, graph, dependencies, count,
                          set, static_cast<Context>(nullptr)))
STANDIN_DEFINE(cudaGraphAddHostNode, (STANDIN_NEW_NODE, const HostNode *host),
               graph_call(self, driver().cuGraphAddHostNode, node, graph, dependencies, count,
                          host))
STANDIN_DEFINE(cudaGraphAddChildGraphNode, (STANDIN_NEW_NODE, Graph child),
               graph_call(self, driver().cuGraphAddChildGraphNode, node, graph, dependencies, count,
                          child))
STANDIN_DEFINE(cudaGraphAddEmptyNode, (STANDIN_NEW_NODE),
               graph_call(self, driver().cuGraphAddEmptyNode, node, graph, dependencies, count))
STANDIN_DEFINE(cudaGraphAddEventRecordNode, (STANDIN_NEW_NODE, Event event),
               graph_call(self, driver().cuGraphAddEventRecordNode, node, graph, dependencies,
                          count, event))
STANDIN_DEFINE(cudaGraphAddEventWaitNode, (STANDIN_NEW_NODE, Event event),
               graph_call(self, driver().cuGraphAddEventWaitNode, node, graph, dependencies, count,
                          event))
STANDIN_DEFINE(cudaGraphAddMemAllocNode, (STANDIN_NEW_NODE, AllocateNode *allocation),
               graph_call(self, driver().cuGraphAddMemAllocNode, node, graph, dependencies, count,
                          allocation))
STANDIN_DEFINE(cudaGraphAddMemFreeNode, (STANDIN_NEW_NODE, void *address_to_free),
               graph_call(self, driver().cuGraphAddMemFreeNode, node, graph, dependencies, count,
                          address(address_to_free)))

// Since CUDA 13 it is what the second version was.
#if STANDIN_CUDA_MAJOR < 13
STANDIN_DEFINE(cudaGraphAddNode, (STANDIN_NEW_NODE, RuntimeAnyNode *parameters),
               add_any(self, node, graph, dependencies, count, parameters))
#else
STANDIN_DEFINE(cudaGraphAddNode,
               (GraphNode * node, Graph graph, const GraphNode *dependencies,
                const EdgeData * /*edges*/, std::size_t count, RuntimeAnyNode *parameters),
               add_any(self, node, graph, dependencies, count, parameters))
#endif
STANDIN_DEFINE(cudaGraphAddNode_v2,
               (GraphNode * node, Graph graph, const GraphNode *dependencies,
                const EdgeData * /*edges*/, std::size_t count, RuntimeAnyNode *parameters),
               add_any(self, node, graph, dependencies, count, parameters))

STANDIN_DEFINE(cudaGraphKernelNodeSetParams, (GraphNode node, const KernelNode *kernel),
               in_context(self, [&](const Call &open) {
                   return with_kernel(open, kernel, [&](const DriverKernelNode2 *same) {
                       return driver().cuGraphKernelNodeSetParams_v2(node, same);
                   });
               }))
STANDIN_DEFINE(cudaGraphMemcpyNodeSetParams, (GraphNode node, const Copy3D *copy),
               in_context(self, [&](const Call &open) {
                   return with_copy(open, copy, [&](const DriverCopy3D *same) {
                       return driver().cuGraphMemcpyNodeSetParams(node, same);
                   });
               }))
STANDIN_DEFINE(cudaGraphMemcpyNodeSetParams1D,
               (GraphNode node, void *to, const void *from, std::size_t bytes, int direction),
               in_context(self, [&](const Call &open) {
                   return with_copy(open, to, from, bytes, direction,
                                    [&](const DriverCopy3D *same) {
                                        return driver().cuGraphMemcpyNodeSetParams(node, same);
                                    });
               }))
STANDIN_DEFINE(cudaGraphMemcpyNodeSetParamsToSymbol,
               (GraphNode node, const void *symbol, const void *from, std::size_t bytes,
                std::size_t offset, int direction),
               in_context(self, [&](const Call &open) {
                   return with_symbol(open, symbol, true, from, bytes, offset, direction,
                                      [&](const DriverCopy3D *same) {
                                          return driver().cuGraphMemcpyNodeSetParams(node, same);
                                      });
               }))
STANDIN_DEFINE(cudaGraphMemcpyNodeSetParamsFromSymbol,
               (GraphNode node, void *to, const void *symbol, std::size_t bytes, std::size_t offset,
                int direction),
               in_context(self, [&](const Call &open) {
                   return with_symbol(open, symbol, false, to, bytes, offset, direction,
                                      [&](const DriverCopy3D *same) {
                                          return driver().cuGraphMemcpyNodeSetParams(node, same);
                                      });
               }))
STANDIN_DEFINE(cudaGraphMemsetNodeSetParams, (GraphNode node, const SetNode *set),
               graph_call(self, driver().cuGraphMemsetNodeSetParams, node, set))
STANDIN_DEFINE(cudaGraphNodeSetParams, (GraphNode node, RuntimeAnyNode *parameters),
               in_context(self, [&](const Call &open) {
                   return with_node(open, parameters, [&](DriverAnyNode *same) {
                       return driver().cuGraphNodeSetParams(node, same);
                   });
               }))

STANDIN_DEFINE(cudaGraphDestroyNode, (GraphNode node),
               graph_call(self, driver().cuGraphDestroyNode, node))
STANDIN_DEFINE(cudaGraphGetNodes, (Graph graph, GraphNode *nodes, std::size_t *count),
               graph_call(self, driver().cuGraphGetNodes, graph, nodes, count))
STANDIN_DEFINE(cudaGraphNodeFindInClone, (GraphNode * node, GraphNode original, Graph copy),
               graph_call(self, driver().cuGraphNodeFindInClone, node, original, copy))
STANDIN_DEFINE(cudaGraphNodeGetType, (GraphNode node, int *type),
               graph_call(self, driver().cuGraphNodeGetType, node, type))
STANDIN_DEFINE(cudaGraphChildGraphNodeGetGraph, (GraphNode node, Graph *graph),
               graph_call(self, driver().cuGraphChildGraphNodeGetGraph, node, graph))

}  // extern "C"

// The functions that make graphs executable, change and launch them.

#include "cudart/graph_call.h"

using namespace standin;

extern "C" {

STANDIN_DEFINE(cudaGraphInstantiate, (GraphExec * executable, Graph graph, std::uint64_t flags),
               graph_call(self, driver().cuGraphInstantiateWithFlags, executable, graph, flags))
STANDIN_DEFINE(cudaGraphInstantiateWithFlags,
               (GraphExec * executable, Graph graph, std::uint64_t flags),
               graph_call(self, driver().cuGraphInstantiateWithFlags, executable, graph, flags))
STANDIN_DEFINE(cudaGraphInstantiateWithParams,
               (GraphExec * executable, Graph graph, InstantiateParameters *parameters),
               graph_call(self, driver().cuGraphInstantiateWithParams, executable, graph,
                          parameters))
STANDIN_DEFINE(cudaGraphInstantiateWithParams_ptsz,
               (GraphExec * executable, Graph graph, InstantiateParameters *parameters),
               graph_call(self, driver().cuGraphInstantiateWithParams_ptsz, executable, graph,
                          parameters))
STANDIN_DEFINE(cudaGraphExecDestroy, (GraphExec executable),
               graph_call(self, driver().cuGraphExecDestroy, executable))
STANDIN_DEFINE(cudaGraphExecUpdate, (GraphExec executable, Graph graph, UpdateInfo *info),
               graph_call(self, driver().cuGraphExecUpdate_v2, executable, graph, info))

STANDIN_DEFINE(cudaGraphExecKernelNodeSetParams,
               (GraphExec executable, GraphNode node, const KernelNode *kernel),
               in_context(self, [&](const Call &open) {
                   return with_kernel(open, kernel, [&](const DriverKernelNode2 *same) {
                       return driver().cuGraphExecKernelNodeSetParams_v2(executable, node, same);
                   });
               }))
STANDIN_DEFINE(cudaGraphExecMemcpyNodeSetParams,
               (GraphExec executable, GraphNode node, const Copy3D *copy),
               in_context(self, [&](const Call &open) {
                   return with_copy(open, copy, [&](const DriverCopy3D *same) {
                       return driver().cuGraphExecMemcpyNodeSetParams(executable, node, same,
                                                                      nullptr);
                   });
               }))
STANDIN_DEFINE(cudaGraphExecMemcpyNodeSetParams1D,
               (GraphExec executable, GraphNode node, void *to, const void *from, std::size_t bytes,
                int direction),
               in_context(self, [&](const Call &open) {
                   return with_copy(open, to, from, bytes, direction,
                                    [&](const DriverCopy3D *same) {
                                        return driver().cuGraphExecMemcpyNodeSetParams(
                                            executable, node, same, nullptr);
                                    });
               }))
STANDIN_DEFINE(cudaGraphExecMemcpyNodeSetParamsToSymbol,
               (GraphExec executable, GraphNode node, const void *symbol, const void *from,
                std::size_t bytes, std::size_t offset, int direction),
               in_context(self, [&](const Call &open) {
                   return with_symbol(open, symbol, true, from, bytes, offset, direction,
                                      [&](const DriverCopy3D *same) {
                                          return driver().cuGraphExecMemcpyNodeSetParams(
                                              executable, node, same, nullptr);
                                      });
               }))
STANDIN_DEFINE(cudaGraphExecMemcpyNodeSetParamsFromSymbol,
               (GraphExec executable, GraphNode node, void *to, const void *symbol,
                std::size_t bytes, std::size_t offset, int direction),
               in_context(self, [&](const Call &open) {
                   return with_symbol(open, symbol, false, to, bytes, offset, direction,
                                      [&](const DriverCopy3D *same) {
                                          return driver().cuGraphExecMemcpyNodeSetParams(
                                              executable, node, same, nullptr);
                                      });
               }))
STANDIN_DEFINE(cudaGraphExecMemsetNodeSetParams,
               (GraphExec executable, GraphNode node, const SetNode *set),
               graph_call(self, driver().cuGraphExecMemsetNodeSetParams, executable, node, set,
                          static_cast<Context>(nullptr)))
STANDIN_DEFINE(cudaGraphExecChildGraphNodeSetParams,
               (GraphExec executable, GraphNode node, Graph child),
               graph_call(self, driver().cuGraphExecChildGraphNodeSetParams, executable, node,
                          child))
STANDIN_DEFINE(cudaGraphExecNodeSetParams,
               (GraphExec executable, GraphNode node, RuntimeAnyNode *parameters),
               in_context(self, [&](const Call &open) {
                   return with_node(open, parameters, [&](DriverAnyNode *same) {
                       return driver().cuGraphExecNodeSetParams(executable, node, same);
                   });
               }))
STANDIN_DEFINE(cudaGraphNodeSetEnabled, (GraphExec executable, GraphNode node, unsigned enabled),
               graph_call(self, driver().cuGraphNodeSetEnabled, executable, node, enabled))
STANDIN_DEFINE(cudaGraphNodeGetEnabled, (GraphExec executable, GraphNode node, unsigned *enabled),
               graph_call(self, driver().cuGraphNodeGetEnabled, executable, node, enabled))

STANDIN_DEFINE(cudaGraphUpload, (GraphExec executable, Stream stream),
               graph_call(self, driver().cuGraphUpload, executable, stream))
STANDIN_DEFINE(cudaGraphUpload_ptsz, (GraphExec executable, Stream stream),
               graph_call(self, driver().cuGraphUpload_ptsz, executable, stream))
STANDIN_DEFINE(cudaGraphLaunch, (GraphExec executable, Stream stream),
               graph_call(self, driver().cuGraphLaunch, executable, stream))
STANDIN_DEFINE(cudaGraphLaunch_ptsz, (GraphExec executable, Stream stream),
               graph_call(self, driver().cuGraphLaunch_ptsz, executable, stream))

}  // extern "C"

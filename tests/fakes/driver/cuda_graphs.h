// The driver's functions that capture streams, and that make, change and launch graphs: a part of
// driver/cuda.h.

#pragma once

extern "C" {
STANDIN_BOTH(cuStreamBeginCapture_v2, _ptsz, standin::Stream stream, int mode);
STANDIN_BOTH(cuStreamBeginCaptureToGraph, _ptsz, standin::Stream stream, standin::Graph graph,
             const standin::GraphNode *dependencies, const standin::EdgeData *edges,
             std::size_t count, int mode);
STANDIN_BOTH(cuStreamEndCapture, _ptsz, standin::Stream stream, standin::Graph *graph);
STANDIN_BOTH(cuStreamIsCapturing, _ptsz, standin::Stream stream, int *status);
STANDIN_BOTH(cuStreamGetCaptureInfo_v2, _ptsz, standin::Stream stream, int *status,
             std::uint64_t *id, standin::Graph *graph, const standin::GraphNode **dependencies,
             std::size_t *count);
STANDIN_BOTH(cuStreamGetCaptureInfo_v3, _ptsz, standin::Stream stream, int *status,
             std::uint64_t *id, standin::Graph *graph, const standin::GraphNode **dependencies,
             const standin::EdgeData **edges, std::size_t *count);
int cuThreadExchangeStreamCaptureMode(int *mode);

int cuGraphCreate(standin::Graph *graph, unsigned flags);
int cuGraphDestroy(standin::Graph graph);
int cuGraphClone(standin::Graph *copy, standin::Graph original);
int cuGraphAddKernelNode(standin::GraphNode *node, standin::Graph graph,
                         const standin::GraphNode *dependencies, std::size_t count,
                         const standin::DriverKernelNode *kernel);
int cuGraphAddKernelNode_v2(standin::GraphNode *node, standin::Graph graph,
                            const standin::GraphNode *dependencies, std::size_t count,
                            const standin::DriverKernelNode2 *kernel);
int cuGraphAddMemcpyNode(standin::GraphNode *node, standin::Graph graph,
                         const standin::GraphNode *dependencies, std::size_t count,
                         const standin::DriverCopy3D *copy, standin::Context context);
int cuGraphAddMemsetNode(standin::GraphNode *node, standin::Graph graph,
                         const standin::GraphNode *dependencies, std::size_t count,
                         const standin::SetNode *set, standin::Context context);
int cuGraphAddHostNode(standin::GraphNode *node, standin::Graph graph,
                       const standin::GraphNode *dependencies, std::size_t count,
                       const standin::HostNode *host);
int cuGraphAddChildGraphNode(standin::GraphNode *node, standin::Graph graph,
                             const standin::GraphNode *dependencies, std::size_t count,
                             standin::Graph child);
int cuGraphAddEmptyNode(standin::GraphNode *node, standin::Graph graph,
                        const standin::GraphNode *dependencies, std::size_t count);
int cuGraphAddEventRecordNode(standin::GraphNode *node, standin::Graph graph,
                              const standin::GraphNode *dependencies, std::size_t count,
                              standin::Event event);
int cuGraphAddEventWaitNode(standin::GraphNode *node, standin::Graph graph,
                            const standin::GraphNode *dependencies, std::size_t count,
                            standin::Event event);
int cuGraphAddMemAllocNode(standin::GraphNode *node, standin::Graph graph,
                           const standin::GraphNode *dependencies, std::size_t count,
                           standin::AllocateNode *allocation);
int cuGraphAddMemFreeNode(standin::GraphNode *node, standin::Graph graph,
                          const standin::GraphNode *dependencies, std::size_t count,
                          standin::DevicePointer address);
int cuGraphAddNode(standin::GraphNode *node, standin::Graph graph,
                   const standin::GraphNode *dependencies, std::size_t count,
                   standin::DriverAnyNode *parameters);
int cuGraphAddNode_v2(standin::GraphNode *node, standin::Graph graph,
                      const standin::GraphNode *dependencies, const standin::EdgeData *edges,
                      std::size_t count, standin::DriverAnyNode *parameters);
int cuGraphKernelNodeSetParams(standin::GraphNode node, const standin::DriverKernelNode *kernel);
int cuGraphKernelNodeSetParams_v2(standin::GraphNode node,
                                  const standin::DriverKernelNode2 *kernel);
int cuGraphMemcpyNodeSetParams(standin::GraphNode node, const standin::DriverCopy3D *copy);
int cuGraphMemsetNodeSetParams(standin::GraphNode node, const standin::SetNode *set);
int cuGraphNodeSetParams(standin::GraphNode node, standin::DriverAnyNode *parameters);
int cuGraphDestroyNode(standin::GraphNode node);
int cuGraphGetNodes(standin::Graph graph, standin::GraphNode *nodes, std::size_t *count);
int cuGraphNodeFindInClone(standin::GraphNode *node, standin::GraphNode original,
                           standin::Graph copy);
int cuGraphNodeGetType(standin::GraphNode node, int *type);
int cuGraphChildGraphNodeGetGraph(standin::GraphNode node, standin::Graph *graph);

int cuGraphInstantiate(standin::GraphExec *executable, standin::Graph graph,
                       standin::GraphNode *error_node, char *log, std::size_t log_bytes);
int cuGraphInstantiate_v2(standin::GraphExec *executable, standin::Graph graph,
                          standin::GraphNode *error_node, char *log, std::size_t log_bytes);
int cuGraphInstantiateWithFlags(standin::GraphExec *executable, standin::Graph graph,
                                std::uint64_t flags);
STANDIN_BOTH(cuGraphInstantiateWithParams, _ptsz, standin::GraphExec *executable,
             standin::Graph graph, standin::InstantiateParameters *parameters);
int cuGraphExecDestroy(standin::GraphExec executable);
int cuGraphExecUpdate(standin::GraphExec executable, standin::Graph graph,
                      standin::GraphNode *error_node, int *result);
int cuGraphExecUpdate_v2(standin::GraphExec executable, standin::Graph graph,
                         standin::UpdateInfo *info);
int cuGraphExecKernelNodeSetParams(standin::GraphExec executable, standin::GraphNode node,
                                   const standin::DriverKernelNode *kernel);
int cuGraphExecKernelNodeSetParams_v2(standin::GraphExec executable, standin::GraphNode node,
                                      const standin::DriverKernelNode2 *kernel);
int cuGraphExecMemcpyNodeSetParams(standin::GraphExec executable, standin::GraphNode node,
                                   const standin::DriverCopy3D *copy, standin::Context context);
int cuGraphExecMemsetNodeSetParams(standin::GraphExec executable, standin::GraphNode node,
                                   const standin::SetNode *set, standin::Context context);
int cuGraphExecChildGraphNodeSetParams(standin::GraphExec executable, standin::GraphNode node,
                                       standin::Graph child);
int cuGraphExecNodeSetParams(standin::GraphExec executable, standin::GraphNode node,
                             standin::DriverAnyNode *parameters);
int cuGraphNodeSetEnabled(standin::GraphExec executable, standin::GraphNode node, unsigned enabled);
int cuGraphNodeGetEnabled(standin::GraphExec executable, standin::GraphNode node,
                          unsigned *enabled);
STANDIN_BOTH(cuGraphUpload, _ptsz, standin::GraphExec executable, standin::Stream stream);
STANDIN_BOTH(cuGraphLaunch, _ptsz, standin::GraphExec executable, standin::Stream stream);
}

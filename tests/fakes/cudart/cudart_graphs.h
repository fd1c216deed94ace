// The runtime's functions that capture streams, and that make, change and launch graphs: a part of
// cudart/cudart.h. Two of them take other arguments since CUDA 13; the programs here are of 12.

#pragma once

extern "C" {
STANDIN_RUNTIME_BOTH(cudaStreamBeginCapture, _ptsz, standin::Stream stream, int mode);
STANDIN_RUNTIME_BOTH(cudaStreamBeginCaptureToGraph, _ptsz, standin::Stream stream,
                     standin::Graph graph, const standin::GraphNode *dependencies,
                     const standin::EdgeData *edges, std::size_t count, int mode);
STANDIN_RUNTIME_BOTH(cudaStreamEndCapture, _ptsz, standin::Stream stream, standin::Graph *graph);
STANDIN_RUNTIME_BOTH(cudaStreamIsCapturing, _ptsz, standin::Stream stream, int *status);
#if !defined(STANDIN_CUDA_MAJOR) || STANDIN_CUDA_MAJOR < 13
STANDIN_RUNTIME_BOTH(cudaStreamGetCaptureInfo, _ptsz, standin::Stream stream, int *status,
                     std::uint64_t *id);
int cudaGraphAddNode(standin::GraphNode *node, standin::Graph graph,
                     const standin::GraphNode *dependencies, std::size_t count,
                     standin::RuntimeAnyNode *parameters);
#else
STANDIN_RUNTIME_BOTH(cudaStreamGetCaptureInfo, _ptsz, standin::Stream stream, int *status,
                     std::uint64_t *id, standin::Graph *graph,
                     const standin::GraphNode **dependencies, const standin::EdgeData **edges,
                     std::size_t *count);
int cudaGraphAddNode(standin::GraphNode *node, standin::Graph graph,
                     const standin::GraphNode *dependencies, const standin::EdgeData *edges,
                     std::size_t count, standin::RuntimeAnyNode *parameters);
#endif
STANDIN_RUNTIME_BOTH(cudaStreamGetCaptureInfo_v2, _ptsz, standin::Stream stream, int *status,
                     std::uint64_t *id, standin::Graph *graph,
                     const standin::GraphNode **dependencies, std::size_t *count);
STANDIN_RUNTIME_BOTH(cudaStreamGetCaptureInfo_v3, _ptsz, standin::Stream stream, int *status,
                     std::uint64_t *id, standin::Graph *graph,
                     const standin::GraphNode **dependencies, const standin::EdgeData **edges,
                     std::size_t *count);
int cudaThreadExchangeStreamCaptureMode(int *mode);
STANDIN_RUNTIME_BOTH(cudaStreamWaitEvent, _ptsz, standin::Stream stream, standin::Event event,
                     unsigned flags);
STANDIN_RUNTIME_BOTH(cudaStreamQuery, _ptsz, standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaLaunchHostFunc, _ptsz, standin::Stream stream,
                     standin::HostFunction function, void *argument);

int cudaGraphCreate(standin::Graph *graph, unsigned flags);
int cudaGraphDestroy(standin::Graph graph);
int cudaGraphClone(standin::Graph *copy, standin::Graph original);
int cudaGraphAddKernelNode(standin::GraphNode *node, standin::Graph graph,
                           const standin::GraphNode *dependencies, std::size_t count,
                           const standin::KernelNode *kernel);
int cudaGraphAddMemcpyNode(standin::GraphNode *node, standin::Graph graph,
                           const standin::GraphNode *dependencies, std::size_t count,
                           const standin::Copy3D *copy);
int cudaGraphAddMemcpyNode1D(standin::GraphNode *node, standin::Graph graph,
                             const standin::GraphNode *dependencies, std::size_t count, void *to,
                             const void *from, std::size_t bytes, int direction);
int cudaGraphAddMemcpyNodeToSymbol(standin::GraphNode *node, standin::Graph graph,
                                   const standin::GraphNode *dependencies, std::size_t count,
                                   const void *symbol, const void *from, std::size_t bytes,
                                   std::size_t offset, int direction);
int cudaGraphAddMemcpyNodeFromSymbol(standin::GraphNode *node, standin::Graph graph,
                                     const standin::GraphNode *dependencies, std::size_t count,
                                     void *to, const void *symbol, std::size_t bytes,
                                     std::size_t offset, int direction);
int cudaGraphAddMemsetNode(standin::GraphNode *node, standin::Graph graph,
                           const standin::GraphNode *dependencies, std::size_t count,
                           const standin::SetNode *set);
int cudaGraphAddHostNode(standin::GraphNode *node, standin::Graph graph,
                         const standin::GraphNode *dependencies, std::size_t count,
                         const standin::HostNode *host);
int cudaGraphAddChildGraphNode(standin::GraphNode *node, standin::Graph graph,
                               const standin::GraphNode *dependencies, std::size_t count,
                               standin::Graph child);
int cudaGraphAddEmptyNode(standin::GraphNode *node, standin::Graph graph,
                          const standin::GraphNode *dependencies, std::size_t count);
int cudaGraphAddEventRecordNode(standin::GraphNode *node, standin::Graph graph,
                                const standin::GraphNode *dependencies, std::size_t count,
                                standin::Event event);
int cudaGraphAddEventWaitNode(standin::GraphNode *node, standin::Graph graph,
                              const standin::GraphNode *dependencies, std::size_t count,
                              standin::Event event);
int cudaGraphAddMemAllocNode(standin::GraphNode *node, standin::Graph graph,
                             const standin::GraphNode *dependencies, std::size_t count,
                             standin::AllocateNode *allocation);
int cudaGraphAddMemFreeNode(standin::GraphNode *node, standin::Graph graph,
                            const standin::GraphNode *dependencies, std::size_t count,
                            void *address_to_free);
int cudaGraphAddNode_v2(standin::GraphNode *node, standin::Graph graph,
                        const standin::GraphNode *dependencies, const standin::EdgeData *edges,
                        std::size_t count, standin::RuntimeAnyNode *parameters);
int cudaGraphKernelNodeSetParams(standin::GraphNode node, const standin::KernelNode *kernel);
int cudaGraphMemcpyNodeSetParams(standin::GraphNode node, const standin::Copy3D *copy);
int cudaGraphMemcpyNodeSetParams1D(standin::GraphNode node, void *to, const void *from,
                                   std::size_t bytes, int direction);
int cudaGraphMemcpyNodeSetParamsToSymbol(standin::GraphNode node, const void *symbol,
                                         const void *from, std::size_t bytes, std::size_t offset,
                                         int direction);
int cudaGraphMemcpyNodeSetParamsFromSymbol(standin::GraphNode node, void *to, const void *symbol,
                                           std::size_t bytes, std::size_t offset, int direction);
int cudaGraphMemsetNodeSetParams(standin::GraphNode node, const standin::SetNode *set);
int cudaGraphNodeSetParams(standin::GraphNode node, standin::RuntimeAnyNode *parameters);
int cudaGraphDestroyNode(standin::GraphNode node);
int cudaGraphGetNodes(standin::Graph graph, standin::GraphNode *nodes, std::size_t *count);
int cudaGraphNodeFindInClone(standin::GraphNode *node, standin::GraphNode original,
                             standin::Graph copy);
int cudaGraphNodeGetType(standin::GraphNode node, int *type);
int cudaGraphChildGraphNodeGetGraph(standin::GraphNode node, standin::Graph *graph);

int cudaGraphInstantiate(standin::GraphExec *executable, standin::Graph graph, std::uint64_t flags);
int cudaGraphInstantiateWithFlags(standin::GraphExec *executable, standin::Graph graph,
                                  std::uint64_t flags);
STANDIN_RUNTIME_BOTH(cudaGraphInstantiateWithParams, _ptsz, standin::GraphExec *executable,
                     standin::Graph graph, standin::InstantiateParameters *parameters);
int cudaGraphExecDestroy(standin::GraphExec executable);
int cudaGraphExecUpdate(standin::GraphExec executable, standin::Graph graph,
                        standin::UpdateInfo *info);
int cudaGraphExecKernelNodeSetParams(standin::GraphExec executable, standin::GraphNode node,
                                     const standin::KernelNode *kernel);
int cudaGraphExecMemcpyNodeSetParams(standin::GraphExec executable, standin::GraphNode node,
                                     const standin::Copy3D *copy);
int cudaGraphExecMemcpyNodeSetParams1D(standin::GraphExec executable, standin::GraphNode node,
                                       void *to, const void *from, std::size_t bytes,
                                       int direction);
int cudaGraphExecMemcpyNodeSetParamsToSymbol(standin::GraphExec executable, standin::GraphNode node,
                                             const void *symbol, const void *from,
                                             std::size_t bytes, std::size_t offset, int direction);
int cudaGraphExecMemcpyNodeSetParamsFromSymbol(standin::GraphExec executable,
                                               standin::GraphNode node, void *to,
                                               const void *symbol, std::size_t bytes,
                                               std::size_t offset, int direction);
int cudaGraphExecMemsetNodeSetParams(standin::GraphExec executable, standin::GraphNode node,
                                     const standin::SetNode *set);
int cudaGraphExecChildGraphNodeSetParams(standin::GraphExec executable, standin::GraphNode node,
                                         standin::Graph child);
int cudaGraphExecNodeSetParams(standin::GraphExec executable, standin::GraphNode node,
                               standin::RuntimeAnyNode *parameters);
int cudaGraphNodeSetEnabled(standin::GraphExec executable, standin::GraphNode node,
                            unsigned enabled);
int cudaGraphNodeGetEnabled(standin::GraphExec executable, standin::GraphNode node,
                            unsigned *enabled);
STANDIN_RUNTIME_BOTH(cudaGraphUpload, _ptsz, standin::GraphExec executable, standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaGraphLaunch, _ptsz, standin::GraphExec executable, standin::Stream stream);
}

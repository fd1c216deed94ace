// Captures and graphs by the runtime.

#include "workload/everything/graphs.h"
#include "workload/everything/runtime.h"
#include "workload/kernels.h"

namespace demo {
namespace {

using standin::Graph;
using standin::GraphExec;
using standin::GraphNode;
using standin::Stream;

GraphFunctions functions() {
    return {{{{RUNTIME(cudaStreamBeginCapture), RUNTIME(cudaStreamBeginCaptureToGraph),
               RUNTIME(cudaStreamEndCapture), RUNTIME(cudaStreamIsCapturing),
               RUNTIME(cudaStreamGetCaptureInfo_v2), RUNTIME(cudaStreamGetCaptureInfo_v3),
               RUNTIME(cudaEventRecord), RUNTIME(cudaEventRecordWithFlags),
               RUNTIME(cudaStreamWaitEvent), RUNTIME(cudaStreamQuery), RUNTIME(cudaLaunchHostFunc),
               RUNTIME(cudaGraphUpload), RUNTIME(cudaGraphLaunch),
               RUNTIME(cudaGraphInstantiateWithParams)},
              {RUNTIME(cudaStreamBeginCapture_ptsz), RUNTIME(cudaStreamBeginCaptureToGraph_ptsz),
               RUNTIME(cudaStreamEndCapture_ptsz), RUNTIME(cudaStreamIsCapturing_ptsz),
               RUNTIME(cudaStreamGetCaptureInfo_v2_ptsz), RUNTIME(cudaStreamGetCaptureInfo_v3_ptsz),
               RUNTIME(cudaEventRecord_ptsz), RUNTIME(cudaEventRecordWithFlags_ptsz),
               RUNTIME(cudaStreamWaitEvent_ptsz), RUNTIME(cudaStreamQuery_ptsz),
               RUNTIME(cudaLaunchHostFunc_ptsz), RUNTIME(cudaGraphUpload_ptsz),
               RUNTIME(cudaGraphLaunch_ptsz), RUNTIME(cudaGraphInstantiateWithParams_ptsz)}}},
            RUNTIME(cudaThreadExchangeStreamCaptureMode),
            RUNTIME(cudaEventQuery),
            RUNTIME(cudaEventSynchronize),
            RUNTIME(cudaGraphCreate),
            RUNTIME(cudaGraphDestroy),
            RUNTIME(cudaGraphClone),
            RUNTIME(cudaGraphAddHostNode),
            RUNTIME(cudaGraphAddChildGraphNode),
            RUNTIME(cudaGraphAddEmptyNode),
            RUNTIME(cudaGraphAddEventRecordNode),
            RUNTIME(cudaGraphAddEventWaitNode),
            RUNTIME(cudaGraphAddMemAllocNode),
            RUNTIME(cudaGraphDestroyNode),
            RUNTIME(cudaGraphGetNodes),
            RUNTIME(cudaGraphNodeFindInClone),
            RUNTIME(cudaGraphNodeGetType),
            RUNTIME(cudaGraphChildGraphNodeGetGraph),
            RUNTIME(cudaGraphExecDestroy),
            RUNTIME(cudaGraphExecChildGraphNodeSetParams),
            RUNTIME(cudaGraphNodeSetEnabled),
            RUNTIME(cudaGraphNodeGetEnabled)};
}

standin::KernelNode node_of(KernelWork &work) {
    return {work.function, work.step.grid, work.step.block, 0, work.arguments.pointers(), nullptr};
}

standin::SetNode node_of(SetWork &work) {
    return {reinterpret_cast<standin::DevicePointer>(work.to), 0, 7, 1, work.step.bytes, 1};
}

standin::Copy3D node_of(CopyWork &work) {
    standin::Copy3D node;
    node.from = {work.of.from, work.step.bytes, work.step.bytes, 1};
    node.to = {work.of.to, work.step.bytes, work.step.bytes, 1};
    node.extent = {work.step.bytes, 1, 1};
    node.direction = work.of.direction();
    return node;
}

standin::RuntimeAnyNode any_of(KernelWork &work) {
    standin::RuntimeAnyNode node;
    node.type = standin::kKernelNode;
    node.of.kernel = node_of(work);
    return node;
}

standin::RuntimeAnyNode any_of(CopyWork &work) {
    standin::RuntimeAnyNode node;
    node.type = standin::kCopyNode;
    node.of.copy = {0, {}, node_of(work)};
    return node;
}

standin::RuntimeAnyNode any_of(SetWork &work) {
    standin::RuntimeAnyNode node;
    node.type = standin::kSetNode;
    node.of.set = node_of(work);
    return node;
}

// The functions of one kind of node, and those of any.
template <typename Work, typename Node>
NodeWays<Work> ways(Everything &all, const AddNode<const Node *> &add,
                    const Named<GraphNode, const Node *> &change,
                    const Named<GraphExec, GraphNode, const Node *> &change_in) {
    NodeWays<Work> result;
    result.add = {[&all, add](GraphNode *node, const Place &at, Work &work) {
                      const Node own = node_of(work);
                      return all.make(add, node, at.graph, at.after.data(), at.after.size(), &own);
                  },
                  [&all](GraphNode *node, const Place &at, Work &work) {
                      auto any = any_of(work);
                      return all.make(RUNTIME(cudaGraphAddNode), node, at.graph, at.after.data(),
                                      at.after.size(), &any);
                  },
                  [&all](GraphNode *node, const Place &at, Work &work) {
                      auto any = any_of(work);
                      return all.make(RUNTIME(cudaGraphAddNode_v2), node, at.graph, at.after.data(),
                                      nullptr, at.after.size(), &any);
                  }};
    result.change = {[&all, change](GraphNode node, Work &work) {
                         const Node own = node_of(work);
                         return all.make(change, node, &own);
                     },
                     [&all](GraphNode node, Work &work) {
                         auto any = any_of(work);
                         return all.make(RUNTIME(cudaGraphNodeSetParams), node, &any);
                     }};
    result.change_in = {[&all, change_in](GraphExec executable, GraphNode node, Work &work) {
                            const Node own = node_of(work);
                            return all.make(change_in, executable, node, &own);
                        },
                        [&all](GraphExec executable, GraphNode node, Work &work) {
                            auto any = any_of(work);
                            return all.make(RUNTIME(cudaGraphExecNodeSetParams), executable, node,
                                            &any);
                        }};
    return result;
}

// One end of the copy is the variable, where it can be.
template <typename... Before>
struct SymbolCopies {
    Named<Before..., const void *, const void *, std::size_t, std::size_t, int> to_symbol;
    Named<Before..., void *, const void *, std::size_t, std::size_t, int> from_symbol;
    Named<Before..., void *, const void *, std::size_t, int> flat;
};

template <typename... Before>
int copy(Everything &all, const SymbolCopies<Before...> &by, CopyWork &work, Before... before) {
    const std::size_t bytes = work.step.bytes;
    const int direction = work.of.direction();
    const bool coin = all.coin();
    if (work.of.to_device && (coin || !work.of.from_device)) {
        return all.make(by.to_symbol, before..., device_variable(), work.of.from, bytes,
                        std::size_t{0}, direction);
    }
    if (work.of.from_device) {
        return all.make(by.from_symbol, before..., work.of.to, device_variable(), bytes,
                        std::size_t{0}, direction);
    }
    return all.make(by.flat, before..., work.of.to, work.of.from, bytes, direction);
}

void add_copies_of_one_row(Everything &all, NodeWays<CopyWork> &to) {
    to.add.emplace_back([&all](GraphNode *node, const Place &at, CopyWork &work) {
        return all.make(RUNTIME(cudaGraphAddMemcpyNode1D), node, at.graph, at.after.data(),
                        at.after.size(), work.of.to, work.of.from, work.step.bytes,
                        work.of.direction());
    });
    to.add.emplace_back([&all](GraphNode *node, const Place &at, CopyWork &work) {
        const SymbolCopies<GraphNode *, Graph, const GraphNode *, std::size_t> by{
            RUNTIME(cudaGraphAddMemcpyNodeToSymbol), RUNTIME(cudaGraphAddMemcpyNodeFromSymbol),
            RUNTIME(cudaGraphAddMemcpyNode1D)};
        return copy(all, by, work, node, at.graph, at.after.data(), at.after.size());
    });
    to.change.emplace_back([&all](GraphNode node, CopyWork &work) {
        return all.make(RUNTIME(cudaGraphMemcpyNodeSetParams1D), node, work.of.to, work.of.from,
                        work.step.bytes, work.of.direction());
    });
    to.change.emplace_back([&all](GraphNode node, CopyWork &work) {
        const SymbolCopies<GraphNode> by{RUNTIME(cudaGraphMemcpyNodeSetParamsToSymbol),
                                         RUNTIME(cudaGraphMemcpyNodeSetParamsFromSymbol),
                                         RUNTIME(cudaGraphMemcpyNodeSetParams1D)};
        return copy(all, by, work, node);
    });
    to.change_in.emplace_back([&all](GraphExec executable, GraphNode node, CopyWork &work) {
        return all.make(RUNTIME(cudaGraphExecMemcpyNodeSetParams1D), executable, node, work.of.to,
                        work.of.from, work.step.bytes, work.of.direction());
    });
    to.change_in.emplace_back([&all](GraphExec executable, GraphNode node, CopyWork &work) {
        const SymbolCopies<GraphExec, GraphNode> by{
            RUNTIME(cudaGraphExecMemcpyNodeSetParamsToSymbol),
            RUNTIME(cudaGraphExecMemcpyNodeSetParamsFromSymbol),
            RUNTIME(cudaGraphExecMemcpyNodeSetParams1D)};
        return copy(all, by, work, executable, node);
    });
}

void add_ways(Everything &all, GraphApi &api) {
    api.kernels = ways<KernelWork, standin::KernelNode>(all, RUNTIME(cudaGraphAddKernelNode),
                                                        RUNTIME(cudaGraphKernelNodeSetParams),
                                                        RUNTIME(cudaGraphExecKernelNodeSetParams));
    api.copies = ways<CopyWork, standin::Copy3D>(all, RUNTIME(cudaGraphAddMemcpyNode),
                                                 RUNTIME(cudaGraphMemcpyNodeSetParams),
                                                 RUNTIME(cudaGraphExecMemcpyNodeSetParams));
    add_copies_of_one_row(all, api.copies);
    api.sets = ways<SetWork, standin::SetNode>(all, RUNTIME(cudaGraphAddMemsetNode),
                                               RUNTIME(cudaGraphMemsetNodeSetParams),
                                               RUNTIME(cudaGraphExecMemsetNodeSetParams));
    api.kernels.put = [&all](KernelWork &work, Stream stream) {
        return all.make(RUNTIME(cudaLaunchKernel), static_cast<const void *>(work.function),
                        work.step.grid, work.step.block, work.arguments.pointers(), std::size_t{0},
                        stream);
    };
    api.copies.put = [&all](CopyWork &work, Stream stream) {
        return all.make(all.coin() ? RUNTIME(cudaMemcpyAsync) : RUNTIME(cudaMemcpyAsync_ptsz),
                        work.of.to, work.of.from, work.step.bytes, work.of.direction(), stream);
    };
    api.sets.put = [&all](SetWork &work, Stream stream) {
        return all.make(all.coin() ? RUNTIME(cudaMemsetAsync) : RUNTIME(cudaMemsetAsync_ptsz),
                        work.to, 1, work.step.bytes, stream);
    };
}

}  // namespace

GraphApi runtime_graphs(Everything &all) {
    GraphApi api{functions()};
    api.open = [&all](GraphApi &own) {
        for (Stream *stream : {&own.stream, &own.other}) {
            insist([&] {
                return all.make(RUNTIME(cudaStreamCreateWithFlags), stream,
                                standin::kNonBlockingStream);
            });
        }
        Stream passing{};
        insist([&] {
            return all.make(RUNTIME(cudaStreamCreateWithFlags), &passing,
                            standin::kNonBlockingStream);
        });
        insist([&] { return all.make(RUNTIME(cudaStreamDestroy), passing); });
        for (standin::Event *event : {&own.event, &own.other_event}) {
            insist([&] { return all.make(RUNTIME(cudaEventCreate), event); });
        }
    };
    api.find_kernel = [&all](KernelWork &work) {
        const KernelStub &kernel = kernel_stubs()[all.random(kernel_stubs().size())];
        work.function = const_cast<void *>(kernel.stub);
        work.step.kernel = kernel.mangled;
    };
    add_ways(all, api);
    api.allocate = [&all](void **memory, std::size_t bytes, Stream stream) {
        return all.make(RUNTIME(cudaMallocAsync), memory, bytes, stream);
    };
    api.free = [&all](void *memory, Stream stream) {
        return all.make(RUNTIME(cudaFreeAsync), memory, stream);
    };
    api.add_free = [&all](GraphNode *node, const Place &at, standin::DevicePointer address) {
        return all.make(RUNTIME(cudaGraphAddMemFreeNode), node, at.graph, at.after.data(),
                        at.after.size(), reinterpret_cast<void *>(address));
    };
    for (const auto &function :
         {RUNTIME(cudaGraphInstantiate), RUNTIME(cudaGraphInstantiateWithFlags)}) {
        api.instantiate.emplace_back([&all, function](GraphExec *executable, Graph graph) {
            return all.make(function, executable, graph, std::uint64_t{0});
        });
    }
    api.update.emplace_back([&all](GraphExec executable, Graph graph) {
        standin::UpdateInfo info;
        return all.make(RUNTIME(cudaGraphExecUpdate), executable, graph, &info);
    });
    api.own_info = [&all](Stream stream) {
        int status = 0;
        std::uint64_t id = 0;
        return all.make(
            all.coin() ? RUNTIME(cudaStreamGetCaptureInfo) : RUNTIME(cudaStreamGetCaptureInfo_ptsz),
            stream, &status, &id);
    };
    return api;
}

}  // namespace demo

// Captures and graphs by the driver.

#include "workload/everything/driver.h"
#include "workload/everything/graphs.h"

namespace demo {
namespace {

using standin::Context;
using standin::Graph;
using standin::GraphExec;
using standin::GraphNode;
using standin::Stream;

GraphFunctions functions() {
    return {{{{DRIVER(cuStreamBeginCapture_v2), DRIVER(cuStreamBeginCaptureToGraph),
               DRIVER(cuStreamEndCapture), DRIVER(cuStreamIsCapturing),
               DRIVER(cuStreamGetCaptureInfo_v2), DRIVER(cuStreamGetCaptureInfo_v3),
               DRIVER(cuEventRecord), DRIVER(cuEventRecordWithFlags), DRIVER(cuStreamWaitEvent),
               DRIVER(cuStreamQuery), DRIVER(cuLaunchHostFunc), DRIVER(cuGraphUpload),
               DRIVER(cuGraphLaunch), DRIVER(cuGraphInstantiateWithParams)},
              {DRIVER(cuStreamBeginCapture_v2_ptsz), DRIVER(cuStreamBeginCaptureToGraph_ptsz),
               DRIVER(cuStreamEndCapture_ptsz), DRIVER(cuStreamIsCapturing_ptsz),
               DRIVER(cuStreamGetCaptureInfo_v2_ptsz), DRIVER(cuStreamGetCaptureInfo_v3_ptsz),
               DRIVER(cuEventRecord_ptsz), DRIVER(cuEventRecordWithFlags_ptsz),
               DRIVER(cuStreamWaitEvent_ptsz), DRIVER(cuStreamQuery_ptsz),
               DRIVER(cuLaunchHostFunc_ptsz), DRIVER(cuGraphUpload_ptsz),
               DRIVER(cuGraphLaunch_ptsz), DRIVER(cuGraphInstantiateWithParams_ptsz)}}},
            DRIVER(cuThreadExchangeStreamCaptureMode),
            DRIVER(cuEventQuery),
            DRIVER(cuEventSynchronize),
            DRIVER(cuGraphCreate),
            DRIVER(cuGraphDestroy),
            DRIVER(cuGraphClone),
            DRIVER(cuGraphAddHostNode),
            DRIVER(cuGraphAddChildGraphNode),
            DRIVER(cuGraphAddEmptyNode),
            DRIVER(cuGraphAddEventRecordNode),
            DRIVER(cuGraphAddEventWaitNode),
            DRIVER(cuGraphAddMemAllocNode),
            DRIVER(cuGraphDestroyNode),
            DRIVER(cuGraphGetNodes),
            DRIVER(cuGraphNodeFindInClone),
            DRIVER(cuGraphNodeGetType),
            DRIVER(cuGraphChildGraphNodeGetGraph),
            DRIVER(cuGraphExecDestroy),
            DRIVER(cuGraphExecChildGraphNodeSetParams),
            DRIVER(cuGraphNodeSetEnabled),
            DRIVER(cuGraphNodeGetEnabled)};
}

standin::DriverKernelNode first_node_of(KernelWork &work) {
    return {work.function, work.step.grid, work.step.block, 0, work.arguments.pointers(), nullptr};
}

standin::DriverKernelNode2 node_of(KernelWork &work) {
    return {first_node_of(work), nullptr, nullptr};
}

standin::SetNode node_of(SetWork &work) {
    return {at(work.to), 0, 7, 1, work.step.bytes, 1};
}

standin::DriverCopy3D node_of(CopyWork &work) {
    standin::DriverCopy3D node;
    node.from_type = work.of.from_device ? standin::kDeviceMemory : standin::kHostMemory;
    node.from_host = work.of.from;
    node.from_device = at(work.of.from);
    node.to_type = work.of.to_device ? standin::kDeviceMemory : standin::kHostMemory;
    node.to_host = work.of.to;
    node.to_device = at(work.of.to);
    node.width = work.step.bytes;
    node.height = 1;
    node.depth = 1;
    return node;
}

standin::DriverAnyNode any_of(KernelWork &work) {
    standin::DriverAnyNode node;
    node.type = standin::kKernelNode;
    node.of.kernel = node_of(work);
    return node;
}

standin::DriverAnyNode any_of(CopyWork &work) {
    standin::DriverAnyNode node;
    node.type = standin::kCopyNode;
    node.of.copy = {0, 0, nullptr, node_of(work)};
    return node;
}

standin::DriverAnyNode any_of(SetWork &work) {
    standin::DriverAnyNode node;
    node.type = standin::kSetNode;
    node.of.set = node_of(work);
    return node;
}

// The functions of any node. Some of the others take a context too, or are of a first version.
template <typename Work>
NodeWays<Work> ways(Everything &all) {
    NodeWays<Work> result;
    result.add = {[&all](GraphNode *node, const Place &place, Work &work) {
                      auto any = any_of(work);
                      return all.make(DRIVER(cuGraphAddNode), node, place.graph, place.after.data(),
                                      place.after.size(), &any);
                  },
                  [&all](GraphNode *node, const Place &place, Work &work) {
                      auto any = any_of(work);
                      return all.make(DRIVER(cuGraphAddNode_v2), node, place.graph,
                                      place.after.data(), nullptr, place.after.size(), &any);
                  }};
    result.change = {[&all](GraphNode node, Work &work) {
        auto any = any_of(work);
        return all.make(DRIVER(cuGraphNodeSetParams), node, &any);
    }};
    result.change_in = {[&all](GraphExec executable, GraphNode node, Work &work) {
        auto any = any_of(work);
        return all.make(DRIVER(cuGraphExecNodeSetParams), executable, node, &any);
    }};
    return result;
}

// `describe` makes what the functions take.
template <typename Work, typename Node, typename... More>
void add_ways(Everything &all, NodeWays<Work> &to, const AddNode<const Node *, More...> &add,
              const Named<GraphNode, const Node *> &change,
              const Named<GraphExec, GraphNode, const Node *, More...> &change_in,
              Node (*describe)(Work &), More... more) {
    to.add.emplace_back([=, &all](GraphNode *node, const Place &place, Work &work) {
        const Node own = describe(work);
        return all.make(add, node, place.graph, place.after.data(), place.after.size(), &own,
                        more...);
    });
    to.change.emplace_back([=, &all](GraphNode node, Work &work) {
        const Node own = describe(work);
        return all.make(change, node, &own);
    });
    to.change_in.emplace_back([=, &all](GraphExec executable, GraphNode node, Work &work) {
        const Node own = describe(work);
        return all.make(change_in, executable, node, &own, more...);
    });
}

void add_ways(Everything &all, GraphApi &api) {
    api.kernels = ways<KernelWork>(all);
    add_ways<KernelWork, standin::DriverKernelNode>(
        all, api.kernels, DRIVER(cuGraphAddKernelNode), DRIVER(cuGraphKernelNodeSetParams),
        DRIVER(cuGraphExecKernelNodeSetParams), first_node_of);
    add_ways<KernelWork, standin::DriverKernelNode2>(
        all, api.kernels, DRIVER(cuGraphAddKernelNode_v2), DRIVER(cuGraphKernelNodeSetParams_v2),
        DRIVER(cuGraphExecKernelNodeSetParams_v2), node_of);
    api.copies = ways<CopyWork>(all);
    add_ways<CopyWork, standin::DriverCopy3D, Context>(
        all, api.copies, DRIVER(cuGraphAddMemcpyNode), DRIVER(cuGraphMemcpyNodeSetParams),
        DRIVER(cuGraphExecMemcpyNodeSetParams), node_of, nullptr);
    api.sets = ways<SetWork>(all);
    add_ways<SetWork, standin::SetNode, Context>(
        all, api.sets, DRIVER(cuGraphAddMemsetNode), DRIVER(cuGraphMemsetNodeSetParams),
        DRIVER(cuGraphExecMemsetNodeSetParams), node_of, nullptr);
    api.kernels.put = [&all](KernelWork &work, Stream stream) {
        const standin::Dim3 grid = work.step.grid;
        const standin::Dim3 block = work.step.block;
        return all.make(all.coin() ? DRIVER(cuLaunchKernel) : DRIVER(cuLaunchKernel_ptsz),
                        work.function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0U,
                        stream, work.arguments.pointers(), nullptr);
    };
    api.copies.put = [&all](CopyWork &work, Stream stream) {
        return all.make(all.coin() ? DRIVER(cuMemcpyAsync) : DRIVER(cuMemcpyAsync_ptsz),
                        at(work.of.to), at(work.of.from), work.step.bytes, stream);
    };
    api.sets.put = [&all](SetWork &work, Stream stream) {
        return all.make(all.coin() ? DRIVER(cuMemsetD8Async) : DRIVER(cuMemsetD8Async_ptsz),
                        at(work.to), std::uint8_t{1}, work.step.bytes, stream);
    };
}

}  // namespace

GraphApi driver_graphs(Everything &all, const DriverState &state) {
    GraphApi api{functions()};
    api.open = [&all](GraphApi &own) {
        for (Stream *stream : {&own.stream, &own.other}) {
            insist([&] {
                return all.make(DRIVER(cuStreamCreate), stream, standin::kNonBlockingStream);
            });
        }
        Stream passing{};
        insist([&] {
            return all.make(DRIVER(cuStreamCreate), &passing, standin::kNonBlockingStream);
        });
        insist([&] { return all.make(DRIVER(cuStreamDestroy_v2), passing); });
        for (standin::Event *event : {&own.event, &own.other_event}) {
            insist([&] { return all.make(DRIVER(cuEventCreate), event, 0U); });
        }
    };
    api.find_kernel = [&all, &state](KernelWork &work) {
        const char *name = kModuleKernels[all.random(kModuleKernels.size())];
        work.step.kernel = name;
        if (all.make(DRIVER(cuModuleGetFunction), &work.function, state.module, name) !=
            standin::kSuccess) {
            work.function = nullptr;
        }
    };
    add_ways(all, api);
    api.allocate = [&all](void **memory, std::size_t bytes, Stream stream) {
        return all.make(DRIVER(cuMemAllocAsync), reinterpret_cast<standin::DevicePointer *>(memory),
                        bytes, stream);
    };
    api.free = [&all](void *memory, Stream stream) {
        return all.make(DRIVER(cuMemFreeAsync), at(memory), stream);
    };
    api.add_free = [&all](GraphNode *node, const Place &place, standin::DevicePointer address) {
        return all.make(DRIVER(cuGraphAddMemFreeNode), node, place.graph, place.after.data(),
                        place.after.size(), address);
    };
    for (const auto &function : {DRIVER(cuGraphInstantiate), DRIVER(cuGraphInstantiate_v2)}) {
        api.instantiate.emplace_back([&all, function](GraphExec *executable, Graph graph) {
            GraphNode error_node = nullptr;
            char log[64];
            return all.make(function, executable, graph, &error_node, &log[0], sizeof log);
        });
    }
    api.instantiate.emplace_back([&all](GraphExec *executable, Graph graph) {
        return all.make(DRIVER(cuGraphInstantiateWithFlags), executable, graph, std::uint64_t{0});
    });
    api.update.emplace_back([&all](GraphExec executable, Graph graph) {
        GraphNode error_node = nullptr;
        int result = 0;
        return all.make(DRIVER(cuGraphExecUpdate), executable, graph, &error_node, &result);
    });
    api.update.emplace_back([&all](GraphExec executable, Graph graph) {
        standin::UpdateInfo info;
        return all.make(DRIVER(cuGraphExecUpdate_v2), executable, graph, &info);
    });
    return api;
}

}  // namespace demo

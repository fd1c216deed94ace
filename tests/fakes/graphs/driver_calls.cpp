#include "graphs/calls.h"

#include "driver/driver_api.h"

#include <cstdio>
#include <cstdlib>

namespace graphs {
namespace {

using standin::HostFunction;

constexpr const char *kNames[kKernels] = {"_Z9vectorAddPKfS0_Pfi", "_ZN4demo6reduceIfEEvPKT_PS1_i",
                                          "triton_poi_fused_add_0"};

standin::DevicePointer address(const void *memory) {
    return reinterpret_cast<standin::DevicePointer>(memory);
}

standin::SetNode node_of(void *to, std::size_t bytes) {
    return {address(to), 0, 0, 1, bytes, 1};
}

standin::DriverCopy3D node_of(const Copy &copy) {
    standin::DriverCopy3D node;
    const bool to_device = (copy.direction & standin::kHostToDevice) != 0;
    const bool from_device = (copy.direction & standin::kDeviceToHost) != 0;
    node.to_type = to_device ? standin::kDeviceMemory : standin::kHostMemory;
    node.from_type = from_device ? standin::kDeviceMemory : standin::kHostMemory;
    node.to_host = copy.to;
    node.to_device = address(copy.to);
    node.from_host = copy.from;
    node.from_device = address(copy.from);
    node.width = copy.bytes;
    node.height = 1;
    node.depth = 1;
    return node;
}

std::size_t count(const Place &place) {
    return place.after == nullptr ? 0 : 1;
}

class Driver : public Calls {
public:
    // Once for the process, and before its other threads.
    Driver() {
        int error = api().cuInit(0);
        error = error == 0 ? api().cuDevicePrimaryCtxRetain(&context_, 0) : error;
        error = error == 0 ? api().cuCtxSetCurrent(context_) : error;
        error = error == 0 ? api().cuModuleLoadData(&module_, kNames) : error;
        for (unsigned kernel = 0; kernel < kKernels && error == 0; ++kernel) {
            error = api().cuModuleGetFunction(&functions_[kernel], module_, kNames[kernel]);
        }
        if (error != 0) {
            std::fprintf(stderr, "no driver: %d\n", error);
            std::exit(2);
        }
    }
    int begin_thread() override { return api().cuCtxSetCurrent(context_); }
    int create_stream(Stream *stream, bool blocking) override {
        return api().cuStreamCreate(stream, blocking ? 0 : standin::kNonBlockingStream);
    }
    int destroy_stream(Stream stream) override { return api().cuStreamDestroy_v2(stream); }
    int create_event(Event *event) override { return api().cuEventCreate(event, 0); }
    int destroy_event(Event event) override { return api().cuEventDestroy_v2(event); }

    int begin(Stream stream, int mode) override {
        return api().cuStreamBeginCapture_v2(stream, mode);
    }
    int begin_into(Stream stream, Graph graph, int mode) override {
        return api().cuStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, mode);
    }
    int end(Stream stream, Graph *graph) override {
        return api().cuStreamEndCapture(stream, graph);
    }
    int status(Stream stream, int *status) override {
        return api().cuStreamIsCapturing(stream, status);
    }
    int exchange_mode(int *mode) override { return api().cuThreadExchangeStreamCaptureMode(mode); }

    int launch(const Launch &launch, Stream stream) override {
        return api().cuLaunchKernel(functions_[launch.kernel], launch.grid.x, launch.grid.y,
                                    launch.grid.z, launch.block.x, launch.block.y, launch.block.z,
                                    0, stream, nullptr, nullptr);
    }
    int copy(const Copy &copy, Stream stream) override {
        switch (copy.direction) {
            case standin::kHostToDevice:
                return api().cuMemcpyHtoDAsync_v2(address(copy.to), copy.from, copy.bytes, stream);
            case standin::kDeviceToHost:
                return api().cuMemcpyDtoHAsync_v2(copy.to, address(copy.from), copy.bytes, stream);
            case standin::kDeviceToDevice:
                return api().cuMemcpyDtoDAsync_v2(address(copy.to), address(copy.from), copy.bytes,
                                                  stream);
            default:
                return api().cuMemcpyAsync(address(copy.to), address(copy.from), copy.bytes,
                                           stream);
        }
    }
    int set(void *to, std::size_t bytes, Stream stream) override {
        return api().cuMemsetD8Async(address(to), 0, bytes, stream);
    }
    int allocate(void **memory, std::size_t bytes, Stream stream) override {
        return api().cuMemAllocAsync(reinterpret_cast<standin::DevicePointer *>(memory), bytes,
                                     stream);
    }
    int free(void *memory, Stream stream) override {
        return api().cuMemFreeAsync(address(memory), stream);
    }
    int host(HostFunction function, void *argument, Stream stream) override {
        return api().cuLaunchHostFunc(stream, function, argument);
    }
    int record(Event event, Stream stream) override { return api().cuEventRecord(event, stream); }
    int wait(Stream stream, Event event) override {
        return api().cuStreamWaitEvent(stream, event, 0);
    }

    int allocate_now(void **memory, std::size_t bytes) override {
        return api().cuMemAlloc_v2(reinterpret_cast<standin::DevicePointer *>(memory), bytes);
    }
    int free_now(void *memory) override { return api().cuMemFree_v2(address(memory)); }
    int copy_now(const Copy &copy) override {
        return api().cuMemcpy(address(copy.to), address(copy.from), copy.bytes);
    }
    int synchronize(Stream stream) override { return api().cuStreamSynchronize(stream); }
    int synchronize_device() override { return api().cuCtxSynchronize(); }
    int query(Stream stream) override { return api().cuStreamQuery(stream); }
    int synchronize_event(Event event) override { return api().cuEventSynchronize(event); }

    int create_graph(Graph *graph) override { return api().cuGraphCreate(graph, 0); }
    int destroy_graph(Graph graph) override { return api().cuGraphDestroy(graph); }
    int clone(Graph *copy, Graph graph) override { return api().cuGraphClone(copy, graph); }
    int nodes(Graph graph, GraphNode *nodes, std::size_t *number) override {
        return api().cuGraphGetNodes(graph, nodes, number);
    }
    int destroy_node(GraphNode node) override { return api().cuGraphDestroyNode(node); }
    int add(GraphNode *node, const Place &at, const Launch &launch) override {
        const auto kernel = node_of_launch(launch);
        return api().cuGraphAddKernelNode_v2(node, at.graph, at.after, count(at), &kernel);
    }
    int add(GraphNode *node, const Place &at, const Copy &copy) override {
        const auto same = node_of(copy);
        return api().cuGraphAddMemcpyNode(node, at.graph, at.after, count(at), &same, context_);
    }
    int add_set(GraphNode *node, const Place &at, void *to, std::size_t bytes) override {
        const auto set = node_of(to, bytes);
        return api().cuGraphAddMemsetNode(node, at.graph, at.after, count(at), &set, context_);
    }
    int add_child(GraphNode *node, const Place &at, Graph child) override {
        return api().cuGraphAddChildGraphNode(node, at.graph, at.after, count(at), child);
    }
    int add_empty(GraphNode *node, const Place &at) override {
        return api().cuGraphAddEmptyNode(node, at.graph, at.after, count(at));
    }
    int add_host(GraphNode *node, const Place &at, HostFunction function, void *argument) override {
        const standin::HostNode host{function, argument};
        return api().cuGraphAddHostNode(node, at.graph, at.after, count(at), &host);
    }
    int add_record(GraphNode *node, const Place &at, Event event) override {
        return api().cuGraphAddEventRecordNode(node, at.graph, at.after, count(at), event);
    }
    int add_wait(GraphNode *node, const Place &at, Event event) override {
        return api().cuGraphAddEventWaitNode(node, at.graph, at.after, count(at), event);
    }
    int add_allocation(GraphNode *node, const Place &at, std::size_t bytes,
                       void **memory) override {
        standin::AllocateNode allocation;
        allocation.bytes = bytes;
        const int error =
            api().cuGraphAddMemAllocNode(node, at.graph, at.after, count(at), &allocation);
        *memory = reinterpret_cast<void *>(allocation.address);
        return error;
    }
    int add_free(GraphNode *node, const Place &at, void *memory) override {
        return api().cuGraphAddMemFreeNode(node, at.graph, at.after, count(at), address(memory));
    }
    int add_any(GraphNode *node, const Place &at, const Launch &launch,
                bool second_version) override {
        standin::DriverAnyNode any;
        any.type = standin::kKernelNode;
        any.of.kernel = node_of_launch(launch);
        return second_version
                   ? api().cuGraphAddNode_v2(node, at.graph, at.after, nullptr, count(at), &any)
                   : api().cuGraphAddNode(node, at.graph, at.after, count(at), &any);
    }
    int change(GraphNode node, const Launch &launch) override {
        const auto kernel = node_of_launch(launch);
        return api().cuGraphKernelNodeSetParams_v2(node, &kernel);
    }
    int change(GraphNode node, const Copy &copy) override {
        const auto same = node_of(copy);
        return api().cuGraphMemcpyNodeSetParams(node, &same);
    }
    int change_set(GraphNode node, void *to, std::size_t bytes) override {
        const auto set = node_of(to, bytes);
        return api().cuGraphMemsetNodeSetParams(node, &set);
    }

    int instantiate(GraphExec *executable, Graph graph, unsigned way) override {
        standin::InstantiateParameters parameters;
        return way == 0   ? api().cuGraphInstantiateWithFlags(executable, graph, 0)
               : way == 1 ? api().cuGraphInstantiate_v2(executable, graph, nullptr, nullptr, 0)
                          : api().cuGraphInstantiateWithParams(executable, graph, &parameters);
    }
    int destroy_executable(GraphExec executable) override {
        return api().cuGraphExecDestroy(executable);
    }
    int update(GraphExec executable, Graph graph, int *result) override {
        standin::UpdateInfo info;
        const int error = api().cuGraphExecUpdate_v2(executable, graph, &info);
        *result = info.result;
        return error;
    }
    int change_in(GraphExec executable, GraphNode node, const Launch &launch) override {
        const auto kernel = node_of_launch(launch);
        return api().cuGraphExecKernelNodeSetParams_v2(executable, node, &kernel);
    }
    int change_in(GraphExec executable, GraphNode node, const Copy &copy) override {
        const auto same = node_of(copy);
        return api().cuGraphExecMemcpyNodeSetParams(executable, node, &same, context_);
    }
    int change_set_in(GraphExec executable, GraphNode node, void *to, std::size_t bytes) override {
        const auto set = node_of(to, bytes);
        return api().cuGraphExecMemsetNodeSetParams(executable, node, &set, context_);
    }
    int change_child_in(GraphExec executable, GraphNode node, Graph child) override {
        return api().cuGraphExecChildGraphNodeSetParams(executable, node, child);
    }
    int enable(GraphExec executable, GraphNode node, bool enabled) override {
        return api().cuGraphNodeSetEnabled(executable, node, enabled ? 1 : 0);
    }
    int upload(GraphExec executable, Stream stream) override {
        return api().cuGraphUpload(executable, stream);
    }
    int launch_graph(GraphExec executable, Stream stream) override {
        return api().cuGraphLaunch(executable, stream);
    }

private:
    static const standin::DriverApi &api() { return standin::driver(); }
    standin::DriverKernelNode2 node_of_launch(const Launch &launch) const {
        return {{functions_[launch.kernel], launch.grid, launch.block, 0, nullptr, nullptr},
                nullptr,
                nullptr};
    }

    standin::Context context_ = nullptr;
    standin::Module module_ = nullptr;
    standin::DriverFunction functions_[kKernels] = {};
};

}  // namespace

std::unique_ptr<Calls> driver_calls() {
    return std::make_unique<Driver>();
}

}  // namespace graphs

#include "graphs/calls.h"
#include "workload/kernels.h"

#include "cudart/cudart.h"

namespace graphs {
namespace {

using standin::HostFunction;

const void *stub(const Launch &launch) {
    return demo::kernel_stubs()[launch.kernel].stub;
}

standin::KernelNode node_of(const Launch &launch) {
    return {const_cast<void *>(stub(launch)), launch.grid, launch.block, 0, nullptr, nullptr};
}

standin::SetNode node_of(void *to, std::size_t bytes) {
    return {reinterpret_cast<standin::DevicePointer>(to), 0, 0, 1, bytes, 1};
}

std::size_t count(const Place &place) {
    return place.after == nullptr ? 0 : 1;
}

class Runtime : public Calls {
public:
    int begin_thread() override { return cudaSetDevice(0); }
    int create_stream(Stream *stream, bool blocking) override {
        return cudaStreamCreateWithFlags(stream, blocking ? 0 : standin::kNonBlockingStream);
    }
    int destroy_stream(Stream stream) override { return cudaStreamDestroy(stream); }
    int create_event(Event *event) override { return cudaEventCreate(event); }
    int destroy_event(Event event) override { return cudaEventDestroy(event); }

    int begin(Stream stream, int mode) override { return cudaStreamBeginCapture(stream, mode); }
    int begin_into(Stream stream, Graph graph, int mode) override {
        return cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, mode);
    }
    int end(Stream stream, Graph *graph) override { return cudaStreamEndCapture(stream, graph); }
    int status(Stream stream, int *status) override {
        return cudaStreamIsCapturing(stream, status);
    }
    int exchange_mode(int *mode) override { return cudaThreadExchangeStreamCaptureMode(mode); }

    int launch(const Launch &launch, Stream stream) override {
        demo::KnownArguments arguments;
        return cudaLaunchKernel(stub(launch), launch.grid, launch.block, arguments.pointers(), 0,
                                stream);
    }
    int copy(const Copy &copy, Stream stream) override {
        return cudaMemcpyAsync(copy.to, copy.from, copy.bytes, copy.direction, stream);
    }
    int set(void *to, std::size_t bytes, Stream stream) override {
        return cudaMemsetAsync(to, 0, bytes, stream);
    }
    int allocate(void **memory, std::size_t bytes, Stream stream) override {
        return cudaMallocAsync(memory, bytes, stream);
    }
    int free(void *memory, Stream stream) override { return cudaFreeAsync(memory, stream); }
    int host(HostFunction function, void *argument, Stream stream) override {
        return cudaLaunchHostFunc(stream, function, argument);
    }
    int record(Event event, Stream stream) override { return cudaEventRecord(event, stream); }
    int wait(Stream stream, Event event) override { return cudaStreamWaitEvent(stream, event, 0); }

    int allocate_now(void **memory, std::size_t bytes) override {
        return cudaMalloc(memory, bytes);
    }
    int free_now(void *memory) override { return cudaFree(memory); }
    int copy_now(const Copy &copy) override {
        return cudaMemcpy(copy.to, copy.from, copy.bytes, copy.direction);
    }
    int synchronize(Stream stream) override { return cudaStreamSynchronize(stream); }
    int synchronize_device() override { return cudaDeviceSynchronize(); }
    int query(Stream stream) override { return cudaStreamQuery(stream); }
    int synchronize_event(Event event) override { return cudaEventSynchronize(event); }

    int create_graph(Graph *graph) override { return cudaGraphCreate(graph, 0); }
    int destroy_graph(Graph graph) override { return cudaGraphDestroy(graph); }
    int clone(Graph *copy, Graph graph) override { return cudaGraphClone(copy, graph); }
    int nodes(Graph graph, GraphNode *nodes, std::size_t *number) override {
        return cudaGraphGetNodes(graph, nodes, number);
    }
    int destroy_node(GraphNode node) override { return cudaGraphDestroyNode(node); }
    int add(GraphNode *node, const Place &at, const Launch &launch) override {
        const auto kernel = node_of(launch);
        return cudaGraphAddKernelNode(node, at.graph, at.after, count(at), &kernel);
    }
    int add(GraphNode *node, const Place &at, const Copy &copy) override {
        return cudaGraphAddMemcpyNode1D(node, at.graph, at.after, count(at), copy.to, copy.from,
                                        copy.bytes, copy.direction);
    }
    int add_set(GraphNode *node, const Place &at, void *to, std::size_t bytes) override {
        const auto set = node_of(to, bytes);
        return cudaGraphAddMemsetNode(node, at.graph, at.after, count(at), &set);
    }
    int add_child(GraphNode *node, const Place &at, Graph child) override {
        return cudaGraphAddChildGraphNode(node, at.graph, at.after, count(at), child);
    }
    int add_empty(GraphNode *node, const Place &at) override {
        return cudaGraphAddEmptyNode(node, at.graph, at.after, count(at));
    }
    int add_host(GraphNode *node, const Place &at, HostFunction function, void *argument) override {
        const standin::HostNode host{function, argument};
        return cudaGraphAddHostNode(node, at.graph, at.after, count(at), &host);
    }
    int add_record(GraphNode *node, const Place &at, Event event) override {
        return cudaGraphAddEventRecordNode(node, at.graph, at.after, count(at), event);
    }
    int add_wait(GraphNode *node, const Place &at, Event event) override {
        return cudaGraphAddEventWaitNode(node, at.graph, at.after, count(at), event);
    }
    int add_allocation(GraphNode *node, const Place &at, std::size_t bytes,
                       void **memory) override {
        standin::AllocateNode allocation;
        allocation.bytes = bytes;
        const int error =
            cudaGraphAddMemAllocNode(node, at.graph, at.after, count(at), &allocation);
        *memory = reinterpret_cast<void *>(allocation.address);
        return error;
    }
    int add_free(GraphNode *node, const Place &at, void *memory) override {
        return cudaGraphAddMemFreeNode(node, at.graph, at.after, count(at), memory);
    }
    int add_any(GraphNode *node, const Place &at, const Launch &launch,
                bool second_version) override {
        standin::RuntimeAnyNode any;
        any.type = standin::kKernelNode;
        any.of.kernel = node_of(launch);
        return second_version
                   ? cudaGraphAddNode_v2(node, at.graph, at.after, nullptr, count(at), &any)
                   : cudaGraphAddNode(node, at.graph, at.after, count(at), &any);
    }
    int change(GraphNode node, const Launch &launch) override {
        const auto kernel = node_of(launch);
        return cudaGraphKernelNodeSetParams(node, &kernel);
    }
    int change(GraphNode node, const Copy &copy) override {
        return cudaGraphMemcpyNodeSetParams1D(node, copy.to, copy.from, copy.bytes, copy.direction);
    }
    int change_set(GraphNode node, void *to, std::size_t bytes) override {
        const auto set = node_of(to, bytes);
        return cudaGraphMemsetNodeSetParams(node, &set);
    }

    int instantiate(GraphExec *executable, Graph graph, unsigned way) override {
        standin::InstantiateParameters parameters;
        return way == 0   ? cudaGraphInstantiateWithFlags(executable, graph, 0)
               : way == 1 ? cudaGraphInstantiate(executable, graph, 0)
                          : cudaGraphInstantiateWithParams(executable, graph, &parameters);
    }
    int destroy_executable(GraphExec executable) override {
        return cudaGraphExecDestroy(executable);
    }
    int update(GraphExec executable, Graph graph, int *result) override {
        standin::UpdateInfo info;
        const int error = cudaGraphExecUpdate(executable, graph, &info);
        *result = info.result;
        return error;
    }
    int change_in(GraphExec executable, GraphNode node, const Launch &launch) override {
        const auto kernel = node_of(launch);
        return cudaGraphExecKernelNodeSetParams(executable, node, &kernel);
    }
    int change_in(GraphExec executable, GraphNode node, const Copy &copy) override {
        return cudaGraphExecMemcpyNodeSetParams1D(executable, node, copy.to, copy.from, copy.bytes,
                                                  copy.direction);
    }
    int change_set_in(GraphExec executable, GraphNode node, void *to, std::size_t bytes) override {
        const auto set = node_of(to, bytes);
        return cudaGraphExecMemsetNodeSetParams(executable, node, &set);
    }
    int change_child_in(GraphExec executable, GraphNode node, Graph child) override {
        return cudaGraphExecChildGraphNodeSetParams(executable, node, child);
    }
    int enable(GraphExec executable, GraphNode node, bool enabled) override {
        return cudaGraphNodeSetEnabled(executable, node, enabled ? 1 : 0);
    }
    int upload(GraphExec executable, Stream stream) override {
        return cudaGraphUpload(executable, stream);
    }
    int launch_graph(GraphExec executable, Stream stream) override {
        return cudaGraphLaunch(executable, stream);
    }
};

}  // namespace

std::unique_ptr<Calls> runtime_calls() {
    return std::make_unique<Runtime>();
}

}  // namespace graphs

// case_check: what the two libraries do together, case by case, each in a process of its own,
// against the truth that it leaves. Exit code 1 and a line for each expectation that is not met.

#include "truth_reader.h"

#include "cudart/cudart.h"
#include "driver/core.h"
#include "driver/cuda.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using standin::DevicePointer;
using truth::MemoryKind;
using truth::TruthSnapshot;

int g_failures = 0;

#define EXPECT(expression)                                                       \
    do {                                                                         \
        if (!(expression)) {                                                     \
            ++g_failures;                                                        \
            std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #expression); \
            std::fflush(stdout);                                                 \
        }                                                                        \
    } while (false)

constexpr std::size_t kGranularity = std::size_t{2} << 20U;

void free_by_the_other_api() {
    void *by_runtime = nullptr;
    DevicePointer by_driver = 0;
    EXPECT(cudaMalloc(&by_runtime, 100) == 0);
    EXPECT(cuMemAlloc_v2(&by_driver, 1000) == 0);
    EXPECT(cuMemFree_v2(reinterpret_cast<DevicePointer>(by_runtime)) == 0);
    EXPECT(cudaFree(reinterpret_cast<void *>(by_driver)) == 0);
}

void check_free_by_the_other_api(const TruthSnapshot &truth) {
    const truth::Memory memory = truth.of(MemoryKind::device);
    EXPECT(memory.allocations == 2 && memory.allocated_bytes == 1100);
    EXPECT(memory.frees == 2 && memory.freed_bytes == 1100 && memory.untracked_frees == 0);
    EXPECT(truth.calls("cudaMalloc") == 1 && truth.calls("cuMemAlloc_v2") == 1);
    EXPECT(truth.calls("cudaFree") == 1 && truth.calls("cuMemFree_v2") == 1);
}

// The other runtime is in the process too; each has its last error.
void two_runtimes() {
    void *library = dlopen("libcudart.so.13", RTLD_NOW);
    EXPECT(library != nullptr);
    const auto allocate = reinterpret_cast<decltype(&cudaMalloc)>(dlsym(library, "cudaMalloc"));
    const auto last_error =
        reinterpret_cast<decltype(&cudaGetLastError)>(dlsym(library, "cudaGetLastError"));
    EXPECT(allocate != &cudaMalloc);
    void *memory = nullptr;
    EXPECT(allocate(&memory, 64) == 0);
    EXPECT(cudaFree(memory) == 0);
    EXPECT(allocate(nullptr, 64) == 1);
    EXPECT(cudaGetLastError() == 0);
    EXPECT(last_error() == 1);
}

void check_two_runtimes(const TruthSnapshot &truth) {
    EXPECT(truth.of(MemoryKind::device).frees == 1);
    EXPECT(truth.result("cudaMalloc", 0) == 1 && truth.result("cudaMalloc", 1) == 1);
}

void call_inside(const char *function, void * /*context*/) {
    static bool inside = false;
    if (!inside && std::string(function) == "cudaMalloc") {
        inside = true;
        void *memory = nullptr;
        EXPECT(cudaMalloc(&memory, 4096) == 0);
        EXPECT(cudaFree(memory) == 0);
        EXPECT(cudaMalloc(static_cast<void **>(nullptr), 1) == 1);
        inside = false;
    }
}

// What a hook does inside a call is nobody's truth, and changes nothing for the call.
void calls_inside_calls() {
    standin_set_hook(call_inside, nullptr);
    void *memory = nullptr;
    EXPECT(cudaMalloc(&memory, 10) == 0);
    standin_set_hook(nullptr, nullptr);
    EXPECT(cudaMemcpy(memory, &memory, 8, standin::kHostToDevice) == 0);
}

void check_calls_inside_calls(const TruthSnapshot &truth) {
    const truth::Memory memory = truth.of(MemoryKind::device);
    EXPECT(memory.allocations == 1 && memory.outstanding_bytes == 10 && memory.frees == 0);
    EXPECT(truth.of(truth::CopyKind::h2d, truth::CopyMode::sync).bytes == 8);
    EXPECT(truth.calls("cudaMalloc") == 1);
    EXPECT(truth.nested_entered == truth.nested_calls && truth.nested_calls > 3);
}

void errors_of_contexts() {
    DevicePointer memory = 0;
    EXPECT(cuMemAlloc_v2(&memory, 8) == standin::kNotInitialized);
    EXPECT(cuInit(0) == 0);
    EXPECT(cuMemAlloc_v2(&memory, 8) == standin::kInvalidContext);
    standin::Context first = nullptr;
    standin::Context second = nullptr;
    EXPECT(cuCtxCreate_v2(&first, 0, 0) == 0);
    EXPECT(cuMemAlloc_v2(&memory, 100) == 0);
    EXPECT(cuCtxCreate_v2(&second, 0, 1) == 0);
    EXPECT(cuMemAlloc_v2(&memory, 1000) == 0);
    EXPECT(cuCtxDestroy_v2(first) == 0);
    EXPECT(cuMemAlloc_v2(&memory, 2000) == 0);
    EXPECT(cuCtxPopCurrent_v2(nullptr) == 0);
    EXPECT(cuMemAlloc_v2(&memory, 8) == standin::kContextIsDestroyed);
    EXPECT(cudaMalloc(reinterpret_cast<void **>(&memory), 8) == standin::kContextIsDestroyed);
    EXPECT(cuCtxDestroy_v2(first) == standin::kInvalidContext);
}

void check_errors_of_contexts(const TruthSnapshot &truth) {
    const truth::Memory &first = truth.of(0, MemoryKind::device);
    EXPECT(first.allocations == 1 && first.freed_by_reset_bytes == 100 && first.frees == 0);
    EXPECT(truth.of(1, MemoryKind::device).outstanding_bytes == 3000);
    EXPECT(truth.result("cuMemAlloc_v2", standin::kNotInitialized) == 1);
    EXPECT(truth.result("cudaMalloc", standin::kContextIsDestroyed) == 1);
}

// Memory with a handle is nobody's context's.
void resets() {
    void *memory = nullptr;
    EXPECT(cudaSetDevice(0) == 0);
    EXPECT(cudaMalloc(&memory, 100) == 0);
    EXPECT(cudaMallocHost(&memory, 200) == 0);
    standin::MemoryHandle handle = 0;
    const standin::MemoryProperties properties;
    EXPECT(cuMemCreate(&handle, kGranularity, &properties, 0) == 0);
    EXPECT(cudaSetDevice(1) == 0);
    EXPECT(cudaMallocManaged(&memory, 400, 1) == 0);
    EXPECT(cudaSetDevice(0) == 0);
    EXPECT(cudaDeviceReset() == 0);
    EXPECT(cudaMalloc(&memory, 800) == 0);
    EXPECT(cuDevicePrimaryCtxReset_v2(1) == 0);
    standin::Context own = nullptr;
    EXPECT(cuCtxCreate_v2(&own, 0, 0) == 0);
    EXPECT(cudaDeviceReset() == standin::kIncompatibleDriverContext);
}

void check_resets(const TruthSnapshot &truth) {
    EXPECT(truth.of(0, MemoryKind::device).freed_by_reset_bytes == 100);
    EXPECT(truth.of(0, MemoryKind::device).outstanding_bytes == 800);
    EXPECT(truth.of(0, MemoryKind::pinned_host).freed_by_reset_bytes == 200);
    EXPECT(truth.of(1, MemoryKind::managed).freed_by_reset_bytes == 400);
    EXPECT(truth.of(0, MemoryKind::vmm).outstanding_bytes == kGranularity);
    EXPECT(truth.held[0].bytes == kGranularity + 800);
    EXPECT(truth.held[0].peak_bytes == kGranularity + 800);
    EXPECT(truth.held[1].bytes == 0 && truth.held[1].peak_bytes == 400);
    EXPECT(truth.all_memory().frees == 0);
}

// By whichever call ends the last reference or mapping.
void virtual_memory() {
    EXPECT(cuInit(0) == 0);
    const standin::MemoryProperties properties;
    standin::MemoryHandle handle = 0;
    standin::MemoryHandle again = 0;
    DevicePointer address = 0;
    EXPECT(cuMemAddressReserve(&address, kGranularity, 0, 0, 0) == 0);
    EXPECT(cuMemCreate(&handle, kGranularity, &properties, 0) == 0);
    EXPECT(cuMemMap(address, kGranularity, 0, handle, 0) == 0);
    EXPECT(cuMemMap(address, kGranularity, 0, handle, 0) == 1);
    EXPECT(cuMemRelease(handle) == 0);
    EXPECT(cuMemRelease(handle) == 1);
    EXPECT(cuMemRetainAllocationHandle(&again, reinterpret_cast<void *>(address + 5)) == 0);
    EXPECT(again == handle);
    EXPECT(cuMemUnmap(address, kGranularity) == 0);
    EXPECT(cuMemAddressFree(address, kGranularity) == 0);
    EXPECT(cuMemRelease(again) == 0);  // the end of it
    EXPECT(cuMemRelease(again) == 1);
    EXPECT(cuMemImportFromShareableHandle(&handle, &again, 1) == 0);
    EXPECT(cuMemRelease(handle) == 0);
}

void check_virtual_memory(const TruthSnapshot &truth) {
    const truth::Memory memory = truth.of(MemoryKind::vmm);
    EXPECT(memory.allocations == 1 && memory.frees == 1 && memory.freed_bytes == kGranularity);
    EXPECT(memory.untracked_frees == 0 && memory.outstanding_bytes == 0);
}

// The child's own truth is read with its parent's: the sum has both.
void forks() {
    void *memory = nullptr;
    EXPECT(cudaMalloc(&memory, 100) == 0);
    const pid_t child = fork();
    if (child == 0) {
        void *own = nullptr;
        EXPECT(cudaFree(memory) == 0);
        EXPECT(cudaMalloc(&own, 7) == 0);
        _exit(g_failures == 0 ? 0 : 1);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

void check_forks(const TruthSnapshot &truth) {
    const truth::Memory memory = truth.of(MemoryKind::device);
    EXPECT(memory.allocations == 2 && memory.outstanding_bytes == 107);
    EXPECT(memory.untracked_frees == 1 && memory.frees == 0);
}

void lookup() {
    void *function = nullptr;
    int status = 9;
    EXPECT(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &status) == 0 && status == 0);
    EXPECT(function == reinterpret_cast<void *>(&cuMemAlloc_v2));
    EXPECT(cuGetProcAddress_v2("cuMemcpyHtoDAsync", &function, 12000, 2, nullptr) == 0);
    EXPECT(function == reinterpret_cast<void *>(&cuMemcpyHtoDAsync_v2_ptsz));
    EXPECT(cuGetProcAddress_v2("cuNothing", &function, 12000, 0, &status) != 0 && status == 1);
}

void check_lookup(const TruthSnapshot &truth) {
    EXPECT(truth.calls("cuGetProcAddress_v2") == 3);
}

// One kernel, 100 bytes to the device and 50 of zeros, captured on two streams.
standin::Graph captured_graph(standin::Stream stream, standin::Stream joins) {
    static std::array<char, 100> host;
    void *memory = nullptr;
    standin::DriverFunction kernel = nullptr;
    standin::Module module = nullptr;
    standin::Event event = nullptr;
    standin::Event back = nullptr;
    standin::Graph graph = nullptr;
    EXPECT(cudaMalloc(&memory, 100) == 0 && cuModuleLoadData(&module, "image") == 0);
    EXPECT(cuModuleGetFunction(&kernel, module, "one") == 0);
    EXPECT(cudaEventCreate(&event) == 0 && cudaEventCreate(&back) == 0);
    EXPECT(cudaStreamBeginCapture(stream, standin::kCaptureGlobal) == 0);
    EXPECT(cuLaunchKernel(kernel, 3, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr) == 0);
    EXPECT(cudaEventRecord(event, stream) == 0);
    EXPECT(cudaStreamWaitEvent(joins, event, 0) == 0);
    EXPECT(cudaMemcpyAsync(memory, host.data(), 100, standin::kHostToDevice, joins) == 0);
    EXPECT(cudaEventRecord(back, joins) == 0);
    EXPECT(cudaMemsetAsync(memory, 0, 50, stream) == 0);
    EXPECT(cudaStreamWaitEvent(stream, back, 0) == 0);
    EXPECT(cudaStreamEndCapture(stream, &graph) == 0);
    return graph;
}

struct Streams {
    standin::Stream first = nullptr;
    standin::Stream second = nullptr;
    Streams() {
        EXPECT(cudaStreamCreateWithFlags(&first, standin::kNonBlockingStream) == 0);
        EXPECT(cudaStreamCreateWithFlags(&second, standin::kNonBlockingStream) == 0);
    }
};

// What is captured does not run; each launch of the graph runs all of it.
void captures() {
    const Streams streams;
    const standin::Graph graph = captured_graph(streams.first, streams.second);
    standin::GraphExec executable = nullptr;
    EXPECT(cudaGraphInstantiate(&executable, graph, 0) == 0);
    EXPECT(cudaGraphLaunch(executable, streams.second) == 0);
    EXPECT(cudaGraphLaunch(executable, streams.second) == 0);
}

void check_captures(const TruthSnapshot &truth) {
    using enum truth::Captured;
    EXPECT(truth.of(launch) == 1 && truth.of(copy) == 1 && truth.of(memset) == 1);
    EXPECT(truth.graphs() == 2 && truth.launches == 0 && truth.launches_by_graphs == 2);
    EXPECT(truth.of(truth::CopyKind::h2d, truth::CopyMode::graph).bytes == 200);
    EXPECT(truth.of(truth::CopyKind::h2d, truth::CopyMode::async).calls == 0);
    EXPECT(truth.sets(truth::CopyMode::graph).bytes == 100);
}

// Neither gives a graph.
void invalid_captures() {
    const Streams streams;
    void *memory = nullptr;
    standin::Graph graph = nullptr;
    EXPECT(cudaStreamBeginCapture(streams.first, standin::kCaptureGlobal) == 0);
    EXPECT(cudaMalloc(&memory, 10) == standin::kCaptureUnsupported);
    EXPECT(cudaStreamEndCapture(streams.first, &graph) == standin::kCaptureInvalidated);
    EXPECT(graph == nullptr && cudaMalloc(&memory, 10) == 0);
    standin::Event event = nullptr;
    EXPECT(cudaEventCreate(&event) == 0 && cudaStreamBeginCapture(streams.first, 2) == 0);
    EXPECT(cudaEventRecord(event, streams.first) == 0);
    EXPECT(cudaStreamWaitEvent(streams.second, event, 0) == 0);
    EXPECT(cudaMemsetAsync(memory, 0, 7, streams.second) == 0);
    EXPECT(cudaStreamEndCapture(streams.first, &graph) == standin::kCaptureUnjoined);
    EXPECT(cudaMemsetAsync(memory, 0, 5, streams.second) == 0);
}

void check_invalid_captures(const TruthSnapshot &truth) {
    EXPECT(truth.of(truth::Captured::memset) == 1 && truth.launches == 0);
    EXPECT(truth.sets(truth::CopyMode::async).bytes == 5 && truth.graphs() == 0);
    EXPECT(truth.of(MemoryKind::device).allocations == 1);
}

// In the executable graph, its original, a clone of that and a graph that has it inside.
void changed_graphs() {
    const Streams streams;
    const standin::Graph graph = captured_graph(streams.first, streams.second);
    std::array<standin::GraphNode, 3> nodes{};
    std::size_t count = nodes.size();
    standin::Graph clone = nullptr;
    standin::Graph outer = nullptr;
    standin::GraphNode child = nullptr;
    standin::GraphExec executable = nullptr;
    EXPECT(cudaGraphGetNodes(graph, nodes.data(), &count) == 0 && count == 3);
    EXPECT(cudaGraphClone(&clone, graph) == 0 && cudaGraphCreate(&outer, 0) == 0);
    EXPECT(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, graph) == 0);
    EXPECT(cudaGraphInstantiate(&executable, graph, 0) == 0);
    EXPECT(cudaGraphNodeSetEnabled(executable, nodes[0], 0) == 0);
    EXPECT(cudaGraphLaunch(executable, streams.first) == 0);  // without the kernel
    void *memory = nullptr;
    EXPECT(cudaMalloc(&memory, 100) == 0);
    const standin::SetNode set{reinterpret_cast<DevicePointer>(memory), 0, 0, 1, 9, 1};
    EXPECT(cudaGraphMemsetNodeSetParams(nodes[2], &set) == 0);
    EXPECT(cudaGraphLaunch(executable, streams.first) == 0);  // as before
    standin::UpdateInfo info;
    EXPECT(cudaGraphExecUpdate(executable, graph, &info) == 0);
    EXPECT(cudaGraphLaunch(executable, streams.first) == 0);  // 9 bytes
    EXPECT(cudaGraphExecUpdate(executable, outer, &info) == standin::kGraphUpdateFailure);
    for (const standin::Graph other : {clone, outer}) {  // as they were made
        EXPECT(cudaGraphInstantiate(&executable, other, 0) == 0);
        EXPECT(cudaGraphLaunch(executable, streams.first) == 0);
    }
}

void check_changed_graphs(const TruthSnapshot &truth) {
    EXPECT(truth.graphs() == 5 && truth.launches_by_graphs == 2 &&
           truth.sets(truth::CopyMode::graph).bytes == 50 + 50 + 9 + 50 + 50);
    EXPECT(truth.of(truth::CopyKind::h2d, truth::CopyMode::graph).calls == 5);
}

struct Case {
    const char *name;
    void (*run)();
    void (*check)(const TruthSnapshot &truth);
    std::size_t processes = 1;
};

constexpr Case kCases[] = {
    {"free_by_the_other_api", free_by_the_other_api, check_free_by_the_other_api},
    {"two_runtimes", two_runtimes, check_two_runtimes},
    {"calls_inside_calls", calls_inside_calls, check_calls_inside_calls},
    {"errors_of_contexts", errors_of_contexts, check_errors_of_contexts},
    {"resets", resets, check_resets},
    {"virtual_memory", virtual_memory, check_virtual_memory},
    {"forks", forks, check_forks, 2},
    {"lookup", lookup, check_lookup},
    {"captures", captures, check_captures},
    {"invalid_captures", invalid_captures, check_invalid_captures},
    {"changed_graphs", changed_graphs, check_changed_graphs},
};

void run_case(const Case &one, const std::filesystem::path &directory) {
    const auto truth_directory = directory / one.name;
    std::filesystem::create_directory(truth_directory);
    const pid_t child = fork();
    if (child == 0) {
        setenv("STANDIN_TRUTH_DIR", truth_directory.c_str(), 1);
        one.run();
        _exit(g_failures == 0 ? 0 : 1);
    }
    int status = 0;
    std::printf("%s\n", one.name);
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    const auto truths = truth::read_truth(truth_directory);
    EXPECT(truths.size() == one.processes);
    one.check(truth::sum(truths));
}

}  // namespace

int main() {
    setenv("STANDIN_DEVICES", "2", 1);
    char directory[] = "/tmp/case_check.XXXXXX";
    if (mkdtemp(directory) == nullptr) {
        std::perror(directory);
        return 2;
    }
    try {
        std::setvbuf(stdout, nullptr, _IONBF, 0);
        for (const Case &one : kCases) {
            run_case(one, directory);
        }
        std::filesystem::remove_all(directory);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "case_check: %s\n", error.what());
        return 1;
    }
    return g_failures == 0 ? 0 : 1;
}

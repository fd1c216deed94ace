// case_check: what the two libraries do together, case by case, each in a process of its own,
// against the truth that it leaves. Exit code 1 and a line for each expectation that is not met.

#include "truth_reader.h"

#include "cudart/cudart.h"
#include "driver/core.h"
#include "driver/cuda.h"

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

void use_first_device() {
    EXPECT(cudaSetDevice(0) == 0);
}

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
    use_first_device();
    EXPECT(cudaMalloc(&memory, 100) == 0);
    EXPECT(cudaMallocHost(&memory, 200) == 0);
    standin::MemoryHandle handle = 0;
    const standin::MemoryProperties properties;
    EXPECT(cuMemCreate(&handle, kGranularity, &properties, 0) == 0);
    EXPECT(cudaSetDevice(1) == 0);
    EXPECT(cudaMallocManaged(&memory, 400, 1) == 0);
    use_first_device();
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

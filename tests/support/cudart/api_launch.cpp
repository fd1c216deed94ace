// The functions that launch kernels, which do nothing.

#include "cudart/call.h"
#include "cudart/registry.h"
#include "cudart/truth_writer.h"

#include <cstdint>
#include <utility>

namespace standin {
namespace {

using truth::Function;

constexpr std::uint64_t kMaxThreadsPerBlock = 1024;

std::uint64_t volume(Dim3 shape) {
    return std::uint64_t{shape.x} * shape.y * shape.z;
}

// Each factor is bounded first: the product of three 32-bit numbers does not fit 64 bits.
bool valid_block(Dim3 block) {
    return block.x <= kMaxThreadsPerBlock && block.y <= kMaxThreadsPerBlock &&
           block.z <= kMaxThreadsPerBlock && volume(block) != 0 &&
           volume(block) <= kMaxThreadsPerBlock;
}

int do_launch(const Call &call, const void *kernel, Dim3 grid, Dim3 block) {
    const char *name = kernel_name(kernel);
    if (name == nullptr) {
        return kInvalidDeviceFunction;
    }
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || !valid_block(block)) {
        return kInvalidConfiguration;
    }
    run_hook(call);
    if (counts(call)) {
        count_launch(name, grid, block);
    }
    return kSuccess;
}

int launch_call(Function function, const void *kernel, Dim3 grid, Dim3 block) {
    const Call call = enter(function);
    return leave(call, do_launch(call, kernel, grid, block));
}

// `function` was called and jumped into cudaLaunchKernel, so both return here.
int launch_after_jump(Function function, const void *kernel, Dim3 grid, Dim3 block) {
    const Call outer = enter(function);
    const Call inner = enter(Function::k_cudaLaunchKernel);
    const int error = do_launch(outer, kernel, grid, block);
    leave(inner, error);
    return leave(outer, error);
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_EXPORT int cudaLaunchKernel(const void *function, Dim3 grid, Dim3 block,
                                    void ** /*arguments*/, std::size_t /*shared_bytes*/,
                                    Stream /*stream*/) {
    const Function outer = std::exchange(thread_state().jumping_from, Function::count);
    if (outer != Function::count) {
        return launch_after_jump(outer, function, grid, block);
    }
    return launch_call(Function::k_cudaLaunchKernel, function, grid, block);
}

// The same address under a second name: discovery must attach to it once.
STANDIN_EXPORT int cudaLaunchKernel_ptsz(const void *function, Dim3 grid, Dim3 block,
                                         void **arguments, std::size_t shared_bytes, Stream stream)
    __attribute__((alias("cudaLaunchKernel")));

// In the real library these two are a jump, not a call, to cudaLaunchKernel and its _ptsz, so both
// functions enter and return as one. With STANDIN_NEST=1 they do the same here: the compiler turns
// the call into a jump because the arguments, those on the stack too, pass on as they came.
STANDIN_EXPORT int __cudaLaunchKernel(Kernel kernel, Dim3 grid, Dim3 block, void **arguments,
                                      std::size_t shared_bytes, Stream stream) {
    if (nesting()) {
        thread_state().jumping_from = Function::k___cudaLaunchKernel;
        return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
    }
    return launch_call(Function::k___cudaLaunchKernel, kernel, grid, block);
}

STANDIN_EXPORT int __cudaLaunchKernel_ptsz(Kernel kernel, Dim3 grid, Dim3 block, void **arguments,
                                           std::size_t shared_bytes, Stream stream) {
    if (nesting()) {
        thread_state().jumping_from = Function::k___cudaLaunchKernel_ptsz;
        return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
    }
    return launch_call(Function::k___cudaLaunchKernel_ptsz, kernel, grid, block);
}

STANDIN_EXPORT int __cudaGetKernel(Kernel *kernel, const void *host_stub) {
    const Call call = enter(Function::k___cudaGetKernel);
    *kernel = kernel_handle(host_stub);
    return leave(call, *kernel == nullptr ? kInvalidDeviceFunction : kSuccess);
}

STANDIN_EXPORT unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared_bytes,
                                                    Stream stream) {
    const Call call = enter(Function::k___cudaPushCallConfiguration);
    ThreadState &thread = thread_state();
    if (thread.pushed == thread.configurations.size()) {
        return static_cast<unsigned>(leave(call, kInvalidValue));
    }
    thread.configurations[thread.pushed++] = {grid, block, shared_bytes, stream};
    return static_cast<unsigned>(leave(call, kSuccess));
}

STANDIN_EXPORT int __cudaPopCallConfiguration(Dim3 *grid, Dim3 *block, std::size_t *shared_bytes,
                                              void *stream) {
    const Call call = enter(Function::k___cudaPopCallConfiguration);
    ThreadState &thread = thread_state();
    if (thread.pushed == 0) {
        return leave(call, kMissingConfiguration);
    }
    const LaunchConfiguration &top = thread.configurations[--thread.pushed];
    *grid = top.grid;
    *block = top.block;
    *shared_bytes = top.shared_bytes;
    *static_cast<Stream *>(stream) = top.stream;
    return leave(call, kSuccess);
}

}  // extern "C"

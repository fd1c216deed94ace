// The functions that launch kernels, which do nothing, and those that find them.

#include "cudart/call.h"
#include "cudart/registry.h"

#include <cstdint>
#include <utility>

namespace standin {
namespace {

using truth::Function;

using DriverLaunch = decltype(&cuLaunchKernel);

constexpr std::uint64_t kMaxThreadsPerBlock = 1024;

std::uint64_t volume(Dim3 shape) {
    return std::uint64_t{shape.x} * shape.y * shape.z;
}

// Each factor is bounded first: the product of three 32-bit numbers does not fit 64 bits.
bool is_shape(Dim3 grid, Dim3 block) {
    return grid.x != 0 && grid.y != 0 && grid.z != 0 && block.x <= kMaxThreadsPerBlock &&
           block.y <= kMaxThreadsPerBlock && block.z <= kMaxThreadsPerBlock && volume(block) != 0 &&
           volume(block) <= kMaxThreadsPerBlock;
}

// What comes before a launch. `function` becomes the driver's handle; what is no registered stub
// may be a handle itself, of which only the driver knows.
int prepare_launch(const Call &open, const void *kernel, Dim3 grid, Dim3 block,
                   DriverFunction &function) {
    if (const int error = use_device(); error != kSuccess) {
        return error;
    }
    Handles handles;
    const int error = find_handles(kernel, handles);
    if (error == kInvalidDeviceFunction) {
        handles.function = const_cast<void *>(kernel);
    } else if (error != kSuccess) {
        return error;
    }
    if (!is_shape(grid, block)) {
        return kInvalidConfiguration;
    }
    core().run_hook(open);
    function = handles.function;
    return kSuccess;
}

int runtime_error(int error, const void *kernel, DriverFunction function) {
    return error == kInvalidResourceHandle && function == kernel
               ? static_cast<int>(kInvalidDeviceFunction)
               : error;
}

template <typename... Extra>
int do_launch(const Call &open,
              int (*launch)(DriverFunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, unsigned, Stream, void **, Extra...),
              const void *kernel, const LaunchConfig &config, void **arguments, Extra... extra) {
    DriverFunction function = nullptr;
    int error = prepare_launch(open, kernel, config.grid, config.block, function);
    if (error == kSuccess) {
        const auto shared_bytes = static_cast<unsigned>(config.shared_bytes);
        error = on_behalf(open, {}, launch, function, config.grid.x, config.grid.y, config.grid.z,
                          config.block.x, config.block.y, config.block.z, shared_bytes,
                          config.stream, arguments, extra...);
    }
    return runtime_error(error, kernel, function);
}

template <typename... Extra>
int launch_call(Function self,
                int (*launch)(DriverFunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, unsigned, Stream, void **, Extra...),
                const void *kernel, const LaunchConfig &config, void **arguments, Extra... extra) {
    return call(self, [&](const Call &open) {
        return do_launch(open, launch, kernel, config, arguments, extra...);
    });
}

// `function` was called and jumped into cudaLaunchKernel, so both return here.
int launch_after_jump(Function function, const void *kernel, const LaunchConfig &config,
                      void **arguments) {
    const Call outer = enter(function);
    const Call inner = enter(Function::k_cudaLaunchKernel);
    const DriverLaunch launch = function == Function::k___cudaLaunchKernel_ptsz
                                    ? driver().cuLaunchKernel_ptsz
                                    : driver().cuLaunchKernel;
    const int error = outer.must_fail ? static_cast<int>(kUnknown)
                                      : do_launch(outer, launch, kernel, config, arguments,
                                                  static_cast<void **>(nullptr));
    leave(inner, error);
    return leave(outer, error);
}

int config_call(Function self, decltype(&cuLaunchKernelEx) launch, const LaunchConfig *config,
                const void *kernel, void **arguments) {
    return call(self, [&](const Call &open) -> int {
        if (config == nullptr) {
            return kInvalidValue;
        }
        DriverFunction function = nullptr;
        int error = prepare_launch(open, kernel, config->grid, config->block, function);
        if (error == kSuccess) {
            const DriverLaunchConfig same{config->grid,
                                          config->block,
                                          static_cast<std::uint32_t>(config->shared_bytes),
                                          config->stream,
                                          config->attributes,
                                          config->attribute_count};
            error = on_behalf(open, {}, launch, &same, function, arguments,
                              static_cast<void **>(nullptr));
        }
        return runtime_error(error, kernel, function);
    });
}

// With the member of Handles that is asked for.
int handle_call(Function self, void **out, const void *host_stub, void *Handles::*wanted) {
    return call(self, [&](const Call &) -> int {
        if (out == nullptr) {
            return kInvalidValue;
        }
        Handles handles;
        int error = use_device();
        if (error == kSuccess) {
            error = find_handles(host_stub, handles);
        }
        *out = handles.*wanted;
        return error;
    });
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_EXPORT int cudaLaunchKernel(const void *function, Dim3 grid, Dim3 block, void **arguments,
                                    std::size_t shared_bytes, Stream stream) {
    const LaunchConfig config{grid, block, shared_bytes, stream, nullptr, 0};
    const Function outer = std::exchange(thread_state().jumping_from, Function::count);
    if (outer != Function::count) {
        return launch_after_jump(outer, function, config, arguments);
    }
    return launch_call(Function::k_cudaLaunchKernel, driver().cuLaunchKernel, function, config,
                       arguments, static_cast<void **>(nullptr));
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
    if (core().nesting()) {
        thread_state().jumping_from = Function::k___cudaLaunchKernel;
        return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
    }
    return launch_call(Function::k___cudaLaunchKernel, driver().cuLaunchKernel, kernel,
                       {grid, block, shared_bytes, stream, nullptr, 0}, arguments,
                       static_cast<void **>(nullptr));
}

STANDIN_EXPORT int __cudaLaunchKernel_ptsz(Kernel kernel, Dim3 grid, Dim3 block, void **arguments,
                                           std::size_t shared_bytes, Stream stream) {
    if (core().nesting()) {
        thread_state().jumping_from = Function::k___cudaLaunchKernel_ptsz;
        return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
    }
    return launch_call(Function::k___cudaLaunchKernel_ptsz, driver().cuLaunchKernel_ptsz, kernel,
                       {grid, block, shared_bytes, stream, nullptr, 0}, arguments,
                       static_cast<void **>(nullptr));
}

STANDIN_DEFINE(cudaLaunchCooperativeKernel,
               (const void *function, Dim3 grid, Dim3 block, void **arguments,
                std::size_t shared_bytes, Stream stream),
               launch_call(self, driver().cuLaunchCooperativeKernel, function,
                           {grid, block, shared_bytes, stream, nullptr, 0}, arguments))
STANDIN_DEFINE(cudaLaunchCooperativeKernel_ptsz,
               (const void *function, Dim3 grid, Dim3 block, void **arguments,
                std::size_t shared_bytes, Stream stream),
               launch_call(self, driver().cuLaunchCooperativeKernel_ptsz, function,
                           {grid, block, shared_bytes, stream, nullptr, 0}, arguments))
STANDIN_DEFINE(cudaLaunchKernelExC,
               (const LaunchConfig *config, const void *function, void **arguments),
               config_call(self, driver().cuLaunchKernelEx, config, function, arguments))
STANDIN_DEFINE(cudaLaunchKernelExC_ptsz,
               (const LaunchConfig *config, const void *function, void **arguments),
               config_call(self, driver().cuLaunchKernelEx_ptsz, config, function, arguments))

STANDIN_DEFINE(__cudaGetKernel, (Kernel * kernel, const void *host_stub),
               handle_call(self, kernel, host_stub, &Handles::kernel))
STANDIN_DEFINE(cudaGetKernel, (Kernel * kernel, const void *host_stub),
               handle_call(self, kernel, host_stub, &Handles::kernel))
STANDIN_DEFINE(cudaGetFuncBySymbol, (DriverFunction * function, const void *host_stub),
               handle_call(self, function, host_stub, &Handles::function))

STANDIN_EXPORT unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared_bytes,
                                                    Stream stream) {
    const Call open = enter(Function::k___cudaPushCallConfiguration);
    ThreadState &thread = thread_state();
    if (thread.pushed == thread.configurations.size()) {
        return static_cast<unsigned>(leave(open, kInvalidValue));
    }
    thread.configurations[thread.pushed++] = {grid, block, shared_bytes, stream};
    return static_cast<unsigned>(leave(open, kSuccess));
}

STANDIN_EXPORT int __cudaPopCallConfiguration(Dim3 *grid, Dim3 *block, std::size_t *shared_bytes,
                                              void *stream) {
    const Call open = enter(Function::k___cudaPopCallConfiguration);
    ThreadState &thread = thread_state();
    if (thread.pushed == 0) {
        return leave(open, kMissingConfiguration);
    }
    const LaunchConfiguration &top = thread.configurations[--thread.pushed];
    *grid = top.grid;
    *block = top.block;
    *shared_bytes = top.shared_bytes;
    *static_cast<Stream *>(stream) = top.stream;
    return leave(open, kSuccess);
}

}  // extern "C"

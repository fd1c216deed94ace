// Launches, and waiting for them.

#include "workload/everything/runtime.h"

#include "workload/everything/events.h"
#include "workload/kernels.h"

namespace demo {
namespace {

using standin::kSuccess;

using Launch =
    Named<const void *, standin::Dim3, standin::Dim3, void **, std::size_t, standin::Stream>;
using LaunchHandle =
    Named<standin::Kernel, standin::Dim3, standin::Dim3, void **, std::size_t, standin::Stream>;

const KernelStub &any_kernel(Everything &all) {
    return kernel_stubs()[all.random(kernel_stubs().size())];
}

void launch(Everything &all, const Launch &function, standin::Stream stream) {
    const KernelStub &kernel = any_kernel(all);
    const standin::Dim3 grid = all.random_grid();
    const standin::Dim3 block = all.random_block();
    KnownArguments arguments;
    if (all.make(function, kernel.stub, grid, block, arguments.pointers(), all.random(1024),
                 stream) == kSuccess) {
        all.note_launch(kernel.mangled, grid, block);
    }
}

void launch_handle(Everything &all, const Named<standin::Kernel *, const void *> &get,
                   const LaunchHandle &function, standin::Stream stream) {
    const KernelStub &kernel = any_kernel(all);
    const standin::Dim3 grid = all.random_grid();
    const standin::Dim3 block = all.random_block();
    KnownArguments arguments;
    standin::Kernel handle = nullptr;
    if (all.make(get, &handle, kernel.stub) == kSuccess &&
        all.make(function, handle, grid, block, arguments.pointers(), std::size_t{0}, stream) ==
            kSuccess) {
        all.note_launch(kernel.mangled, grid, block);
    }
}

void launch_config(Everything &all,
                   const Named<const standin::LaunchConfig *, const void *, void **> &function,
                   standin::Stream stream) {
    const KernelStub &kernel = any_kernel(all);
    const standin::LaunchConfig config{
        all.random_grid(), all.random_block(), 256, stream, nullptr, 0};
    KnownArguments arguments;
    if (all.make(function, &config, kernel.stub, arguments.pointers()) == kSuccess) {
        all.note_launch(kernel.mangled, config.grid, config.block);
    }
}

void get_function(Everything &all) {
    standin::DriverFunction function = nullptr;
    all.make(RUNTIME(cudaGetFuncBySymbol), &function, any_kernel(all).stub);
}

void launch_graph(Everything &all, const RuntimeState &state,
                  const Named<standin::GraphExec, standin::Stream> &function) {
    if (all.make(function, state.graph, any_stream(all, state)) == kSuccess) {
        all.note_graph({});
    }
}

template <typename... Stream>
void wait(Everything &all, const Named<Stream...> &function, Stream... stream) {
    if (all.make(function, stream...) == kSuccess) {
        all.note_wait();
    }
}

}  // namespace

void add_runtime_launches(Everything &all, const RuntimeState &state) {
    auto add = [&all](auto action) { all.actions.emplace_back(action); };
    add([&] { launch(all, RUNTIME(cudaLaunchKernel), any_stream(all, state)); });
    // A second name of the same address.
    add([&] {
        launch(all, {"cudaLaunchKernel", &::cudaLaunchKernel_ptsz}, any_stream(all, state));
    });
    add([&] { launch(all, RUNTIME(cudaLaunchCooperativeKernel), any_stream(all, state)); });
    add([&] { launch(all, RUNTIME(cudaLaunchCooperativeKernel_ptsz), any_stream(all, state)); });
    add([&] {
        launch_handle(all, RUNTIME(__cudaGetKernel), RUNTIME(__cudaLaunchKernel),
                      any_stream(all, state));
    });
    add([&] {
        launch_handle(all, RUNTIME(cudaGetKernel), RUNTIME(__cudaLaunchKernel_ptsz),
                      any_stream(all, state));
    });
    add([&] { launch_config(all, RUNTIME(cudaLaunchKernelExC), any_stream(all, state)); });
    add([&] { launch_config(all, RUNTIME(cudaLaunchKernelExC_ptsz), any_stream(all, state)); });
    add([&] { get_function(all); });
    add([&] { launch_graph(all, state, RUNTIME(cudaGraphLaunch)); });
    add([&] { launch_graph(all, state, RUNTIME(cudaGraphLaunch_ptsz)); });
    add([&] {
        read_elapsed(all, {RUNTIME(cudaEventRecord), RUNTIME(cudaEventElapsedTime)}, state.start,
                     state.end);
    });
    add([&] {
        read_elapsed(all, {RUNTIME(cudaEventRecord), RUNTIME(cudaEventElapsedTime_v2)}, state.start,
                     state.end);
    });
    add([&] { all.make(RUNTIME(cudaEventSynchronize), state.start); });
    add([&] { wait(all, RUNTIME(cudaDeviceSynchronize)); });
    add([&] { wait(all, RUNTIME(cudaStreamSynchronize), any_stream(all, state)); });
    add([&] { wait(all, RUNTIME(cudaStreamSynchronize_ptsz), any_stream(all, state)); });
}

}  // namespace demo

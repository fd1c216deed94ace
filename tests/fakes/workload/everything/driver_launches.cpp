// Kernels by name, launches, and waiting for them.

#include "workload/everything/driver.h"
#include "workload/everything/events.h"
#include "workload/known_arguments.h"

namespace demo {
namespace {

using standin::Dim3;
using standin::DriverFunction;
using standin::kSuccess;
using standin::Stream;

struct Found {
    const char *name = nullptr;
    DriverFunction function = nullptr;
};

// In one of the three ways that there are; the kernel of a library may stand for its function.
Found find(Everything &all, const DriverState &state) {
    const char *name = kModuleKernels[all.random(kModuleKernels.size())];
    DriverFunction function = nullptr;
    if (all.random(3) == 0) {
        return all.make(DRIVER(cuModuleGetFunction), &function, state.module, name) == kSuccess
                   ? Found{name, function}
                   : Found{};
    }
    standin::Kernel kernel = nullptr;
    if (all.make(DRIVER(cuLibraryGetKernel), &kernel, state.library, name) != kSuccess) {
        return {};
    }
    if (all.coin()) {
        return {name, kernel};
    }
    return all.make(DRIVER(cuKernelGetFunction), &function, kernel) == kSuccess
               ? Found{name, function}
               : Found{};
}

template <typename... Extra>
void launch(Everything &all, const DriverState &state,
            const Named<DriverFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, Stream, void **, Extra...> &function,
            Stream stream, Extra... extra) {
    const Found found = find(all, state);
    const Dim3 grid = all.random_grid();
    const Dim3 block = all.random_block();
    KnownArguments arguments;
    if (found.function != nullptr &&
        all.make(function, found.function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                 static_cast<unsigned>(all.random(1024)), stream, arguments.pointers(),
                 extra...) == kSuccess) {
        all.note_launch(found.name, grid, block);
    }
}

void launch_config(
    Everything &all, const DriverState &state,
    const Named<const standin::DriverLaunchConfig *, DriverFunction, void **, void **> &function,
    Stream stream) {
    const Found found = find(all, state);
    const standin::DriverLaunchConfig config{
        all.random_grid(), all.random_block(), 128, stream, nullptr, 0};
    KnownArguments arguments;
    if (found.function != nullptr &&
        all.make(function, &config, found.function, arguments.pointers(), nullptr) == kSuccess) {
        all.note_launch(found.name, config.grid, config.block);
    }
}

// A kernel of a module that is gone again: its handle may come back for another one.
void launch_from_passing_module(Everything &all, Stream stream) {
    const char *image = "another image";
    standin::Module module = nullptr;
    const int loaded = all.coin() ? all.make(DRIVER(cuModuleLoadDataEx), &module,
                                             static_cast<const void *>(image), 0U, nullptr, nullptr)
                                  : all.make(DRIVER(cuModuleLoadFatBinary), &module,
                                             static_cast<const void *>(image));
    if (loaded != kSuccess) {
        return;
    }
    const char *name = all.coin() ? "passing_kernel" : "_Z14passing_kernelPf";
    DriverFunction function = nullptr;
    if (all.make(DRIVER(cuModuleGetFunction), &function, module, name) == kSuccess &&
        all.make(DRIVER(cuLaunchKernel), function, 1U, 1U, 1U, 32U, 1U, 1U, 0U, stream, nullptr,
                 nullptr) == kSuccess) {
        all.note_launch(name, {1, 1, 1}, {32, 1, 1});
    }
    all.make(DRIVER(cuModuleUnload), module);
}

// The same of a library.
void load_passing_library(Everything &all) {
    const char *image = "another image";
    standin::Library library = nullptr;
    if (all.make(DRIVER(cuLibraryLoadData), &library, static_cast<const void *>(image), nullptr,
                 nullptr, 0U, nullptr, nullptr, 0U) == kSuccess) {
        all.make(DRIVER(cuLibraryUnload), library);
    }
}

void launch_graph(Everything &all, const DriverState &state,
                  const Named<standin::GraphExec, Stream> &function) {
    if (all.make(function, state.graph, any_stream(all, state)) == kSuccess) {
        all.note_graph({});
    }
}

template <typename... Streams>
void wait(Everything &all, const Named<Streams...> &function, Streams... stream) {
    if (all.make(function, stream...) == kSuccess) {
        all.note_wait();
    }
}

}  // namespace

void add_driver_launches(Everything &all, const DriverState &state) {
    auto add = [&all](auto action) { all.actions.emplace_back(action); };
    void **const no_extra = nullptr;
    const auto stream = [&all, &state] { return any_stream(all, state); };
    add([=, &all, &state] { launch(all, state, DRIVER(cuLaunchKernel), stream(), no_extra); });
    add([=, &all, &state] { launch(all, state, DRIVER(cuLaunchKernel_ptsz), stream(), no_extra); });
    add([=, &all, &state] { launch(all, state, DRIVER(cuLaunchCooperativeKernel), stream()); });
    add([=, &all, &state] {
        launch(all, state, DRIVER(cuLaunchCooperativeKernel_ptsz), stream());
    });
    add([=, &all, &state] { launch_config(all, state, DRIVER(cuLaunchKernelEx), stream()); });
    add([=, &all, &state] { launch_config(all, state, DRIVER(cuLaunchKernelEx_ptsz), stream()); });
    add([=, &all] { launch_from_passing_module(all, stream()); });
    add([&all] { load_passing_library(all); });
    add([&all, &state] { launch_graph(all, state, DRIVER(cuGraphLaunch)); });
    add([&all, &state] { launch_graph(all, state, DRIVER(cuGraphLaunch_ptsz)); });
    add([&all, &state] {
        read_elapsed(all, {DRIVER(cuEventRecord), DRIVER(cuEventElapsedTime)}, state.start,
                     state.end);
    });
    add([&all, &state] {
        read_elapsed(all, {DRIVER(cuEventRecord), DRIVER(cuEventElapsedTime_v2)}, state.start,
                     state.end);
    });
    add([&all, &state] { all.make(DRIVER(cuEventSynchronize), state.start); });
    add([&all] { wait(all, DRIVER(cuCtxSynchronize)); });
    add([=, &all] { wait(all, DRIVER(cuStreamSynchronize), stream()); });
    add([=, &all] { wait(all, DRIVER(cuStreamSynchronize_ptsz), stream()); });
}

}  // namespace demo

// The beginning, contexts, and what fails.

#include "workload/everything/driver.h"
#include "workload/everything/batches.h"

#include <algorithm>
#include <memory>

namespace demo {
namespace {

using standin::kSuccess;
using Where = Everything::Where;

constexpr std::size_t kMostContexts = 3;
constexpr std::size_t kDeepest = 6;

void retain_all(Everything &all, DriverState &state) {
    int devices = 0;
    for (int attempt = 0; attempt < 10 && devices == 0; ++attempt) {
        all.make(DRIVER(cuInit), 0U);
        all.make(DRIVER(cuDeviceGetCount), &devices);
    }
    for (int device = 0; device < devices; ++device) {
        standin::Context context = nullptr;
        for (int attempt = 0; attempt < 10 && context == nullptr; ++attempt) {
            all.make(DRIVER(cuDevicePrimaryCtxRetain), &context, device);
        }
        state.primary.push_back(context);
    }
}

void begin(Everything &all, DriverState &state) {
    if (all.options().failures && all.stack.empty()) {
        standin::DevicePointer memory = 0;
        all.make(DRIVER(cuMemAlloc_v2), &memory, std::size_t{64});  // there is no context
    }
    retain_all(all, state);
    for (int attempt = 0; attempt < 10 && all.stack.empty(); ++attempt) {
        if (all.make(DRIVER(cuCtxSetCurrent), state.primary[0]) == kSuccess) {
            all.replace_current({});
        }
    }
    // Of the first device.
    all.make(DRIVER(cuStreamCreateWithPriority), &state.stream, 0U, 0);
    standin::Stream brief = nullptr;
    if (all.make(DRIVER(cuGreenCtxStreamCreate), &brief, nullptr, 0U, 0) == kSuccess) {
        all.make(DRIVER(cuStreamDestroy_v2), brief);
    }
    all.make(DRIVER(cuEventCreate), &state.start, 0U);
    all.make(DRIVER(cuEventCreate), &state.end, 0U);
    standin::Graph graph = nullptr;
    if (all.make(DRIVER(cuGraphCreate), &graph, 0U) == kSuccess) {
        all.make(DRIVER(cuGraphInstantiateWithFlags), &state.graph, graph, std::uint64_t{0});
        all.make(DRIVER(cuGraphDestroy), graph);
    }
    const char *image = "an image";
    all.make(DRIVER(cuModuleLoadData), &state.module, static_cast<const void *>(image));
    all.make(DRIVER(cuLibraryLoadData), &state.library, static_cast<const void *>(image), nullptr,
             nullptr, 0U, nullptr, nullptr, 0U);
}

// A primary context, or one of the thread's own.
Where any_context(Everything &all, DriverState &state) {
    return state.own.empty() || all.coin() ? Where{nullptr, any_device(all, state)}
                                           : all.any(state.own);
}

standin::Context handle(const DriverState &state, const Where &where) {
    return where.own != nullptr ? where.own : state.primary[static_cast<std::size_t>(where.device)];
}

void set_current(Everything &all, DriverState &state) {
    const Where where = any_context(all, state);
    if (all.make(DRIVER(cuCtxSetCurrent), handle(state, where)) == kSuccess) {
        all.replace_current(where);
    }
}

void push(Everything &all, DriverState &state) {
    const Where where = any_context(all, state);
    if (all.stack.size() < kDeepest &&
        all.make(DRIVER(cuCtxPushCurrent_v2), handle(state, where)) == kSuccess) {
        all.stack.push_back(where);
    }
}

void pop(Everything &all) {
    standin::Context popped = nullptr;
    if (all.stack.size() > 1 && all.make(DRIVER(cuCtxPopCurrent_v2), &popped) == kSuccess) {
        all.stack.pop_back();
    }
}

template <typename... Parameters, typename... Before>
void create(Everything &all, DriverState &state,
            const Named<standin::Context *, Parameters...> &function, Before... before) {
    if (state.own.size() == kMostContexts || all.stack.size() >= kDeepest) {
        return;
    }
    standin::Context context = nullptr;
    const int device = any_device(all, state);
    if (all.make(function, &context, before..., device) == kSuccess) {
        state.own.push_back({context, device});
        all.stack.push_back(state.own.back());
    }
}

// One that is not current below another context, for that would come back dead.
void destroy(Everything &all, DriverState &state) {
    if (state.own.empty()) {
        return;
    }
    const Where where = all.any(state.own);
    const bool on_top = all.current() == where;
    const auto times = std::ranges::count(all.stack, where);
    if (times > (on_top ? 1 : 0) || (on_top && all.stack.size() == 1) ||
        all.make(DRIVER(cuCtxDestroy_v2), where.own) != kSuccess) {
        return;
    }
    all.note_reset(where);
    std::erase(state.own, where);
    if (on_top) {
        all.stack.pop_back();
    }
}

void retain_and_release(Everything &all, const DriverState &state) {
    standin::Context context = nullptr;
    const int device = any_device(all, state);
    if (all.make(DRIVER(cuDevicePrimaryCtxRetain), &context, device) == kSuccess) {
        all.make(DRIVER(cuDevicePrimaryCtxRelease_v2), device);
    }
}

void reset(Everything &all, const DriverState &state) {
    const int device = any_device(all, state);
    if (all.options().resets && all.random(3) == 0 &&
        all.make(DRIVER(cuDevicePrimaryCtxReset_v2), device) == kSuccess) {
        all.note_reset({nullptr, device});
    }
}

void ask(Everything &all) {
    standin::Device device = 0;
    all.make(DRIVER(cuCtxGetDevice), &device);
    standin::Context context = nullptr;
    all.make(DRIVER(cuCtxGetCurrent), &context);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    all.make(DRIVER(cuMemGetInfo_v2), &free_bytes, &total_bytes);
    void *function = nullptr;
    int status = 0;
    all.make(DRIVER(cuGetProcAddress_v2), "cuMemAlloc", &function, 13000, std::uint64_t{2},
             &status);
}

void add_failures(Everything &all, DriverState &state) {
    auto add = [&all](auto action) { all.failures.emplace_back(action); };
    add([&] {
        standin::DevicePointer memory = 0;
        all.make(DRIVER(cuMemAlloc_v2), &memory, std::size_t{1} << 50U);
        all.make(DRIVER(cuMemAlloc_v2), &memory, std::size_t{0});
    });
    add([&] { all.make(DRIVER(cuMemFree_v2), at(&all)); });
    add([&] { all.make(DRIVER(cuMemFree_v2), standin::DevicePointer{0}); });
    add([&] { all.make(DRIVER(cuMemFreeHost), &all); });
    add([&] { fail_to_register(all, DRIVER(cuMemHostRegister_v2)); });
    add([&] { all.make(DRIVER(cuMemHostUnregister), &all); });
    add([&] { fail_batch(all, DRIVER(cuMemcpyBatchAsync), state.stream); });
    add([&] { all.make(DRIVER(cuMemFreeAsync), at(all.device_room()), &all); });
    add([&] { all.make(DRIVER(cuMemcpyHtoD_v2), at(nullptr), &all, std::size_t{8}); });
    add([&] { all.make(DRIVER(cuMemcpy2D_v2), nullptr); });
    add([&] { all.make(DRIVER(cuMemsetD32_v2), at(&all), 1U, std::size_t{100}); });
    add([&] { all.make(DRIVER(cuCtxSetCurrent), &all); });
    add([&] { all.make(DRIVER(cuCtxDestroy_v2), state.primary[0]); });
    add([&] {
        standin::Context context = nullptr;
        all.make(DRIVER(cuCtxCreate_v2), &context, 0U, 99);
    });
    add([&] { all.make(DRIVER(cuDevicePrimaryCtxReset_v2), 99); });
    add([&] { all.make(DRIVER(cuStreamSynchronize), &all); });
    add([&] { all.make(DRIVER(cuGraphLaunch), &all, nullptr); });
    add([&] {
        standin::DriverFunction function = nullptr;
        all.make(DRIVER(cuModuleGetFunction), &function, state.module, "missing");
    });
    add([&] {
        all.make(DRIVER(cuLaunchKernel), &all, 1U, 1U, 1U, 1U, 1U, 1U, 0U, nullptr, nullptr,
                 nullptr);
    });
    add([&] { all.make(DRIVER(cuMemRelease), standin::MemoryHandle{12345}); });
    add([&] { all.make(DRIVER(cuMemUnmap), at(&all), std::size_t{2} << 20U); });
}

void end(Everything &all, DriverState &state) {
    for (const Where &where : state.own) {
        if (all.make(DRIVER(cuCtxDestroy_v2), where.own) == kSuccess) {
            all.note_reset(where);
        }
    }
}

}  // namespace

void add_driver_contexts(Everything &all, DriverState &state) {
    auto add = [&all](auto action) { all.actions.emplace_back(action); };
    add([&] { set_current(all, state); });
    add([&] { push(all, state); });
    add([&] { pop(all); });
    add([&] { create(all, state, DRIVER(cuCtxCreate_v2), 0U); });
    add([&] { create(all, state, DRIVER(cuCtxCreate_v3), nullptr, 0, 0U); });
    add([&] {
        standin::ContextParameters parameters;
        create(all, state, DRIVER(cuCtxCreate_v4), &parameters, 0U);
    });
    add([&] { destroy(all, state); });
    add([&] { destroy(all, state); });
    add([&] { retain_and_release(all, state); });
    add([&] { reset(all, state); });
    add([&] { ask(all); });
}

void add_driver_actions(Everything &all) {
    // The actions live as long as the state.
    auto state = std::make_shared<DriverState>();
    all.beginnings.emplace_back([&all, state] { begin(all, *state); });
    add_driver_contexts(all, *state);
    add_driver_memory(all, *state);
    add_driver_copies(all, *state);
    add_driver_sets(all, *state);
    add_driver_launches(all, *state);
    add_driver_virtual_memory(all);
    if (all.options().graphs) {
        add_graph_actions(all, driver_graphs(all, *state));
    }
    add_failures(all, *state);
    all.endings.emplace_back([&all, state] { end(all, *state); });
}

}  // namespace demo

// The actions of --everything that call the driver, in several files. They find it with dlopen, as
// many programs do.

#pragma once

#include "workload/everything.h"
#include "workload/everything/graphs.h"

#include "driver/driver_api.h"

#include <array>
#include <vector>

namespace demo {

#define DRIVER(name)                  \
    Named {                           \
        #name, standin::driver().name \
    }

// Of one thread.
struct DriverState {
    standin::Stream stream = nullptr;
    standin::Event start = nullptr;
    standin::Event end = nullptr;
    standin::GraphExec graph = nullptr;
    standin::Module module = nullptr;
    standin::Library library = nullptr;
    std::vector<standin::Context> primary;  // by device
    std::vector<Everything::Where> own;     // contexts that this thread created
};

inline standin::Stream any_stream(Everything &all, const DriverState &state) {
    return all.coin() ? state.stream : nullptr;
}
inline int any_device(Everything &all, const DriverState &state) {
    return static_cast<int>(all.random(state.primary.size()));
}
inline standin::DevicePointer at(const void *pointer) {
    return reinterpret_cast<standin::DevicePointer>(pointer);
}

// What the modules of the demo programs have.
inline constexpr std::array<const char *, 4> kModuleKernels = {
    "_Z9vectorAddPKfS0_Pfi", "_ZN4demo6reduceIfEEvPKT_PS1_i", "triton_poi_fused_add_0",
    "_Z12sixteenWordsmmmmmmmmmmmmmmmm"};

void add_driver_memory(Everything &all, const DriverState &state);
void add_driver_copies(Everything &all, const DriverState &state);
void add_driver_sets(Everything &all, const DriverState &state);
void add_driver_launches(Everything &all, const DriverState &state);
void add_driver_contexts(Everything &all, DriverState &state);
void add_driver_virtual_memory(Everything &all);
GraphApi driver_graphs(Everything &all, const DriverState &state);

}  // namespace demo

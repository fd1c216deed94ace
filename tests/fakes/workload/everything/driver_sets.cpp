// Memsets, of three widths.

#include "workload/everything/driver.h"

namespace demo {
namespace {

using standin::DevicePointer;
using standin::kSuccess;
using truth::CopyMode;

template <typename Value, typename... Stream>
void set(Everything &all, CopyMode mode,
         const Named<DevicePointer, Value, std::size_t, Stream...> &function, Stream... stream) {
    void *to = all.device_room();
    const std::size_t count = all.random(Everything::kRoom / sizeof(Value) + 1);
    if (to != nullptr && all.make(function, at(to), Value{7}, count, stream...) == kSuccess) {
        all.note_set(mode, count * sizeof(Value));
    }
}

template <typename Value, typename... Stream>
void set_rows(
    Everything &all, CopyMode mode,
    const Named<DevicePointer, std::size_t, Value, std::size_t, std::size_t, Stream...> &function,
    Stream... stream) {
    void *to = all.device_room();
    const std::size_t width = 1 + all.random(kPitch / sizeof(Value));
    const std::size_t height = all.random(kRows + 1);
    if (to != nullptr &&
        all.make(function, at(to), kPitch, Value{7}, width, height, stream...) == kSuccess) {
        all.note_set(mode, width * height * sizeof(Value));
    }
}

}  // namespace

#define ADD_SETS(bits)                                                                     \
    add([=, &all] { set(all, kSync, DRIVER(cuMemsetD##bits##_v2)); });                     \
    add([=, &all] { set(all, kSync, DRIVER(cuMemsetD##bits##_v2_ptds)); });                \
    add([=, &all] { set(all, kAsync, DRIVER(cuMemsetD##bits##Async), stream()); });        \
    add([=, &all] { set(all, kAsync, DRIVER(cuMemsetD##bits##Async_ptsz), stream()); });   \
    add([=, &all] { set_rows(all, kSync, DRIVER(cuMemsetD2D##bits##_v2)); });              \
    add([=, &all] { set_rows(all, kSync, DRIVER(cuMemsetD2D##bits##_v2_ptds)); });         \
    add([=, &all] { set_rows(all, kAsync, DRIVER(cuMemsetD2D##bits##Async), stream()); }); \
    add([=, &all] { set_rows(all, kAsync, DRIVER(cuMemsetD2D##bits##Async_ptsz), stream()); })

void add_driver_sets(Everything &all, const DriverState &state) {
    auto add = [&all](auto action) { all.actions.emplace_back(action); };
    constexpr auto kSync = CopyMode::sync;
    constexpr auto kAsync = CopyMode::async;
    const auto stream = [&all, &state] { return any_stream(all, state); };
    ADD_SETS(8);
    ADD_SETS(16);
    ADD_SETS(32);
}

}  // namespace demo

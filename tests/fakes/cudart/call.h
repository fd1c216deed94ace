// The frame of every counted function of the runtime, and its way to the driver.

#pragma once

#include "define.h"
#include "driver/driver_api.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "cudart/cudart.h"

namespace standin {

struct LaunchConfiguration {
    Dim3 grid;
    Dim3 block;
    std::size_t shared_bytes = 0;
    Stream stream = nullptr;
};

struct ThreadState {
    int last_error = kSuccess;
    int device = 0;  // for when it has no context
    bool allocated_before = false;
    // The function that is about to jump, not call, into the next one; see api_launch.cpp.
    truth::Function jumping_from = truth::Function::count;
    std::uint32_t pushed = 0;
    std::array<LaunchConfiguration, 16> configurations;
};

ThreadState &thread_state();

inline const Core &core() {
    return *driver().core;
}

Call enter(truth::Function function);
int leave(const Call &call, int error);

template <typename Action>
int call(truth::Function function, Action &&action) {
    const Call open = enter(function);
    return leave(open, open.must_fail ? static_cast<int>(kUnknown) : action(open));
}

// The driver's function does what the call is for.
template <typename... Parameters, typename... Arguments>
int on_behalf(const Call &open, const OnBehalf &knowledge, int (*function)(Parameters...),
              Arguments... arguments) {
    core().delegate(open, knowledge);
    return function(arguments...);
}

// Of a device that this runtime keeps a reference to from now on.
int primary_context(int device, Context &context);
// Makes its primary context current to the thread.
int choose_device(int device);
// What a thread has current; the primary context of its device if it has nothing.
int use_device();

inline DevicePointer address(const void *pointer) {
    return reinterpret_cast<DevicePointer>(pointer);
}

}  // namespace standin

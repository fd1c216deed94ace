// The kernels and variables that the program registered before main.

#pragma once

#include "cudart/cudart.h"

#include <cstddef>

namespace standin {

void register_kernel(void **fat_binary, const void *host_stub, const char *device_name);
void register_variable(const void *host_variable, std::size_t bytes);

struct Handles {
    Kernel kernel = nullptr;
    DriverFunction function = nullptr;
};
// What the driver has for a host stub, which it is asked for once. Returns an error code;
// kInvalidDeviceFunction when it is no registered stub.
int find_handles(const void *host_stub, Handles &handles);

struct Variable {
    void *start = nullptr;  // on the "device"; nullptr: no such variable
    std::size_t bytes = 0;
};
Variable device_variable(const void *host_variable);

}  // namespace standin

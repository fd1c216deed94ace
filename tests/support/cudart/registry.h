// The kernels that the program registered before main.

#pragma once

#include "cudart/cudart.h"

namespace standin {

void register_kernel(const void *host_stub, const char *device_name);
// The handle of a host stub's kernel, which is another address than the stub's; nullptr: unknown.
Kernel kernel_handle(const void *host_stub);
// The mangled name for a host stub or a handle, as both may be launched; nullptr: unknown.
const char *kernel_name(const void *stub_or_handle);

void lock_registry_for_fork();
void unlock_registry_after_fork();

}  // namespace standin

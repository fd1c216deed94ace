// What programs have handles of, besides contexts, memory and graphs: streams, pools, modules and
// libraries, and their kernels.

#pragma once

#include "cuda_types.h"

#include <cstdint>
#include <optional>
#include <string>

namespace standin {

// All of these return an error code where they return an int.
// Where the work of a stream runs: on a device, in the context of that number.
struct StreamPlace {
    Device device = 0;
    std::uint64_t context = 0;
};
void create_stream(Stream *stream, bool blocking, const StreamPlace &place);
// Nothing for the default streams, which are where the thread is.
std::optional<StreamPlace> place_of(Stream stream);
int destroy_stream(Stream stream);
// The default streams are always there.
bool is_stream(Stream stream);
// Whether it waits for the legacy stream, and that one for it.
bool is_blocking(Stream stream);

// The location of a pool that is on no device.
inline constexpr Device kHost = -1;

void create_pool(MemoryPool *pool, Device device);
int destroy_pool(MemoryPool pool);
MemoryPool default_pool(Device device);
// Nothing when there is no such pool.
std::optional<Device> pool_device(MemoryPool pool);

// A module, or a library, which has kernels instead of functions.
void load_module(Module *module);
int unload_module(Module module);
// The same handle each time. A kernel stands for its function when it is launched.
int find_function(DriverFunction *function, Module module, const char *name);
int find_kernel(Kernel *kernel, Library library, const char *name);
int find_function_of_kernel(DriverFunction *function, Kernel kernel);
// The mangled name of a function or kernel; nothing when there is no such handle.
std::optional<std::string> function_name(const void *function_or_kernel);

void lock_objects_for_fork();
void unlock_objects_after_fork();

}  // namespace standin

// Devices, and the contexts that threads have current.

#pragma once

#include "cuda_types.h"
#include "driver/call.h"

#include <cstdint>

namespace standin {

// STANDIN_DEVICES, 1 without it.
int device_count();
bool is_device(Device device);

void initialize_driver();
bool driver_is_initialized();

// What a thread works in. `id` is never used again, unlike a context's address.
struct Current {
    int error;  // kSuccess, or why there is none
    Device device;
    std::uint64_t id;
};
Current current_context();
// For the truth: 0 without a context.
Device current_device();

// All of these return an error code.
int create_context(Context *context, Device device);  // and makes it current
int destroy_context(Context context, std::uint64_t &id);
int set_current_context(Context context);
int push_context(Context context);
int pop_context(Context *context);
Context current_handle();

int retain_primary(Context *context, Device device);
// `id` is that of the context if this was the last reference, else 0.
int release_primary(Device device, std::uint64_t &id);
std::uint64_t primary_id(Device device);

bool is_context(Context context);

// A call that needs an initialized driver, and no context.
template <typename Action>
int initialized_call(truth::Function function, Action &&action) {
    return call(function, [&](const Call &open) -> int {
        return driver_is_initialized() ? action(open) : static_cast<int>(kNotInitialized);
    });
}

void lock_contexts_for_fork();
void unlock_contexts_after_fork();

}  // namespace standin

#include "driver/contexts.h"

#include "truth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace standin {
namespace {

struct ContextObject {
    std::uint64_t id;
    Device device;
    bool primary;
    std::uint64_t references;  // of a primary one; it is there while there are any
};

struct Entry {
    Context context;
    std::uint64_t id;
};

struct Contexts {
    std::mutex mutex;
    std::uint64_t last_id = 0;
    std::map<Context, ContextObject> live;
    std::array<char, truth::kDevices> primary_handles{};  // their addresses are the handles
};

// Never destroyed: programs make calls while they exit.
Contexts &contexts() {
    static Contexts &instance = *new Contexts;
    return instance;
}

std::atomic<bool> g_initialized = false;

std::vector<Entry> &stack() {
    thread_local std::vector<Entry> entries;
    return entries;
}

// The device without memory for a context; -1: there is none.
Device full_device() {
    static const Device device = [] {
        const char *value = std::getenv("STANDIN_FULL_DEVICE");
        return value == nullptr ? -1 : static_cast<Device>(std::strtol(value, nullptr, 10));
    }();
    return device;
}

Context primary_handle(Device device) {
    return &contexts().primary_handles[static_cast<std::size_t>(device)];
}

// With the lock held. nullptr when there is no such context any more.
const ContextObject *find(Context context) {
    const auto &live = contexts().live;
    const auto found = live.find(context);
    return found == live.end() ? nullptr : &found->second;
}

}  // namespace

int device_count() {
    static const int count = [] {
        const char *value = std::getenv("STANDIN_DEVICES");
        const long wanted = value == nullptr ? 1 : std::strtol(value, nullptr, 10);
        return static_cast<int>(std::clamp(wanted, 0L, static_cast<long>(truth::kDevices)));
    }();
    return count;
}

bool is_device(Device device) {
    return device >= 0 && device < device_count();
}

void initialize_driver() {
    g_initialized = true;
}

bool driver_is_initialized() {
    return g_initialized;
}

Current current_context() {
    if (!g_initialized) {
        return {kNotInitialized, 0, 0};
    }
    if (stack().empty()) {
        return {kInvalidContext, 0, 0};
    }
    const Entry top = stack().back();
    const std::lock_guard lock(contexts().mutex);
    const ContextObject *object = find(top.context);
    if (object == nullptr || object->id != top.id) {
        return {kContextIsDestroyed, 0, 0};
    }
    return {kSuccess, object->device, object->id};
}

Device current_device() {
    return current_context().device;
}

int create_context(Context *context, Device device) {
    const std::lock_guard lock(contexts().mutex);
    *context = new char;
    const std::uint64_t id = ++contexts().last_id;
    contexts().live[*context] = {id, device, false, 0};
    stack().push_back({*context, id});
    return kSuccess;
}

int destroy_context(Context context, std::uint64_t &id) {
    const std::lock_guard lock(contexts().mutex);
    const ContextObject *object = find(context);
    if (object == nullptr || object->primary) {
        return kInvalidContext;
    }
    id = object->id;
    if (!stack().empty() && stack().back().context == context) {
        stack().pop_back();
    }
    contexts().live.erase(context);
    delete static_cast<char *>(context);
    return kSuccess;
}

int set_current_context(Context context) {
    if (context == nullptr) {
        if (!stack().empty()) {
            stack().pop_back();
        }
        return kSuccess;
    }
    const std::lock_guard lock(contexts().mutex);
    const ContextObject *object = find(context);
    if (object == nullptr) {
        return kInvalidContext;
    }
    if (stack().empty()) {
        stack().push_back({context, object->id});
    } else {
        stack().back() = {context, object->id};
    }
    return kSuccess;
}

int push_context(Context context) {
    const std::lock_guard lock(contexts().mutex);
    const ContextObject *object = find(context);
    if (object == nullptr) {
        return kInvalidContext;
    }
    stack().push_back({context, object->id});
    return kSuccess;
}

int pop_context(Context *context) {
    if (stack().empty()) {
        return kInvalidContext;
    }
    if (context != nullptr) {
        *context = stack().back().context;
    }
    stack().pop_back();
    return kSuccess;
}

Context current_handle() {
    return stack().empty() ? nullptr : stack().back().context;
}

int retain_primary(Context *context, Device device) {
    if (device == full_device()) {
        return kMemoryAllocation;
    }
    const std::lock_guard lock(contexts().mutex);
    *context = primary_handle(device);
    auto [at, added] = contexts().live.try_emplace(*context);
    if (added) {
        at->second = {++contexts().last_id, device, true, 0};
    }
    ++at->second.references;
    return kSuccess;
}

int release_primary(Device device, std::uint64_t &id) {
    const std::lock_guard lock(contexts().mutex);
    const auto found = contexts().live.find(primary_handle(device));
    if (found == contexts().live.end()) {
        return kInvalidContext;
    }
    id = 0;
    if (--found->second.references == 0) {
        id = found->second.id;
        contexts().live.erase(found);
    }
    return kSuccess;
}

std::uint64_t primary_id(Device device) {
    const std::lock_guard lock(contexts().mutex);
    const ContextObject *object = find(primary_handle(device));
    return object == nullptr ? 0 : object->id;
}

bool is_context(Context context) {
    const std::lock_guard lock(contexts().mutex);
    return find(context) != nullptr;
}

void lock_contexts_for_fork() {
    contexts().mutex.lock();
}

void unlock_contexts_after_fork() {
    contexts().mutex.unlock();
}

}  // namespace standin

#include "driver/objects.h"

#include "truth.h"

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace standin {
namespace {

// Handles are addresses of something allocated for them: unique while they live, used again later.
class Handles {
public:
    void *add() { return *live_.insert(new char).first; }
    int remove(void *handle) {
        const auto found = live_.find(handle);
        if (found == live_.end()) {
            return kInvalidResourceHandle;
        }
        delete static_cast<char *>(handle);
        live_.erase(found);
        return kSuccess;
    }
    bool has(void *handle) const { return live_.contains(handle); }

private:
    std::set<void *> live_;
};

struct KernelObject {
    std::string name;
    void *function = nullptr;  // of a library's kernel, when it was asked for
};

using Names = std::map<std::string, void *>;

struct Objects {
    std::mutex mutex;
    Handles streams;
    std::set<Stream> unblocking;  // of the streams
    std::map<Stream, StreamPlace> places;
    std::map<MemoryPool, Device> pools;
    std::array<char, truth::kDevices> default_pools{};  // their addresses are the handles
    std::map<Module, Names> modules;                    // and what was asked of them
    std::map<const void *, KernelObject> kernels;       // functions and kernels
};

// Never destroyed: programs make calls while they exit.
Objects &objects() {
    static Objects &instance = *new Objects;
    return instance;
}

void *add_kernel(const std::string &name) {
    void *handle = new char;
    objects().kernels[handle].name = name;
    return handle;
}

void remove_kernel(void *handle) {
    objects().kernels.erase(handle);
    delete static_cast<char *>(handle);
}

int find_name(void **out, Module module, const char *name) {
    const std::lock_guard lock(objects().mutex);
    const auto found = objects().modules.find(module);
    if (found == objects().modules.end()) {
        return kInvalidResourceHandle;
    }
    if (*name == '\0' || std::strncmp(name, "missing", 7) == 0) {
        return kNotFound;
    }
    const auto [at, added] = found->second.try_emplace(name);
    if (added) {
        at->second = add_kernel(name);
    }
    *out = at->second;
    return kSuccess;
}

}  // namespace

void create_stream(Stream *stream, bool blocking, const StreamPlace &place) {
    const std::lock_guard lock(objects().mutex);
    *stream = objects().streams.add();
    objects().places[*stream] = place;
    if (!blocking) {
        objects().unblocking.insert(*stream);
    }
}

int destroy_stream(Stream stream) {
    const std::lock_guard lock(objects().mutex);
    objects().unblocking.erase(stream);
    objects().places.erase(stream);
    return objects().streams.remove(stream);
}

std::optional<StreamPlace> place_of(Stream stream) {
    const std::lock_guard lock(objects().mutex);
    const auto found = objects().places.find(stream);
    return found == objects().places.end() ? std::nullopt : std::optional(found->second);
}

bool is_stream(Stream stream) {
    if (reinterpret_cast<std::uintptr_t>(stream) <= kPerThreadStream) {
        return true;
    }
    const std::lock_guard lock(objects().mutex);
    return objects().streams.has(stream);
}

bool is_blocking(Stream stream) {
    const std::lock_guard lock(objects().mutex);
    return !objects().unblocking.contains(stream);
}

void create_pool(MemoryPool *pool, Device device) {
    const std::lock_guard lock(objects().mutex);
    *pool = new char;
    objects().pools[*pool] = device;
}

int destroy_pool(MemoryPool pool) {
    const std::lock_guard lock(objects().mutex);
    if (objects().pools.erase(pool) == 0) {
        return kInvalidValue;
    }
    delete static_cast<char *>(pool);
    return kSuccess;
}

MemoryPool default_pool(Device device) {
    return &objects().default_pools[static_cast<std::size_t>(device)];
}

std::optional<Device> pool_device(MemoryPool pool) {
    for (std::size_t device = 0; device < truth::kDevices; ++device) {
        if (pool == default_pool(static_cast<Device>(device))) {
            return static_cast<Device>(device);
        }
    }
    const std::lock_guard lock(objects().mutex);
    const auto found = objects().pools.find(pool);
    return found == objects().pools.end() ? std::nullopt : std::optional(found->second);
}

void load_module(Module *module) {
    const std::lock_guard lock(objects().mutex);
    *module = new char;
    objects().modules[*module];
}

int unload_module(Module module) {
    const std::lock_guard lock(objects().mutex);
    const auto found = objects().modules.find(module);
    if (found == objects().modules.end()) {
        return kInvalidResourceHandle;
    }
    for (const auto &[name, handle] : found->second) {
        if (void *function = objects().kernels[handle].function; function != nullptr) {
            remove_kernel(function);
        }
        remove_kernel(handle);
    }
    objects().modules.erase(found);
    delete static_cast<char *>(module);
    return kSuccess;
}

int find_function(DriverFunction *function, Module module, const char *name) {
    return find_name(function, module, name);
}

int find_kernel(Kernel *kernel, Library library, const char *name) {
    return find_name(kernel, library, name);
}

int find_function_of_kernel(DriverFunction *function, Kernel kernel) {
    const std::lock_guard lock(objects().mutex);
    const auto found = objects().kernels.find(kernel);
    if (found == objects().kernels.end()) {
        return kInvalidResourceHandle;
    }
    if (found->second.function == nullptr) {
        found->second.function = add_kernel(found->second.name);
    }
    *function = found->second.function;
    return kSuccess;
}

std::optional<std::string> function_name(const void *function_or_kernel) {
    const std::lock_guard lock(objects().mutex);
    const auto found = objects().kernels.find(function_or_kernel);
    return found == objects().kernels.end() ? std::nullopt : std::optional(found->second.name);
}

void lock_objects_for_fork() {
    objects().mutex.lock();
}

void unlock_objects_after_fork() {
    objects().mutex.unlock();
}

}  // namespace standin

#include "cudart/registry.h"

#include <map>
#include <mutex>
#include <string>

namespace standin {
namespace {

// Programs register in their constructors, which may run before this file's: hence no globals.
struct Registry {
    std::mutex mutex;
    std::map<const void *, std::string *> by_stub;  // the string's address serves as the handle
    std::map<const void *, std::string *> by_handle;
};

// Never destroyed: programs unregister, and may launch, while they exit.
Registry &registry() {
    static Registry &instance = *new Registry;
    return instance;
}

std::string *find(const std::map<const void *, std::string *> &map, const void *key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : found->second;
}

}  // namespace

void register_kernel(const void *host_stub, const char *device_name) {
    Registry &known = registry();
    const std::lock_guard lock(known.mutex);
    auto *name = new std::string(device_name);
    known.by_stub.insert_or_assign(host_stub, name);
    known.by_handle.emplace(name, name);
}

Kernel kernel_handle(const void *host_stub) {
    Registry &known = registry();
    const std::lock_guard lock(known.mutex);
    return find(known.by_stub, host_stub);
}

const char *kernel_name(const void *stub_or_handle) {
    Registry &known = registry();
    const std::lock_guard lock(known.mutex);
    const std::string *name = find(known.by_stub, stub_or_handle);
    if (name == nullptr) {
        name = find(known.by_handle, stub_or_handle);
    }
    return name == nullptr ? nullptr : name->c_str();
}

void lock_registry_for_fork() {
    registry().mutex.lock();
}

void unlock_registry_after_fork() {
    registry().mutex.unlock();
}

}  // namespace standin

#include "cudart/registry.h"

#include "cudart/call.h"

#include <map>
#include <mutex>
#include <string>

#include <pthread.h>

namespace standin {
namespace {

struct Stub {
    std::string name;
    void **fat_binary = nullptr;
    Handles handles;
};

// Programs register in their constructors, which may run before this file's: hence no globals.
struct Registry {
    std::mutex mutex;
    std::map<const void *, Stub> stubs;
    std::map<void **, Library> libraries;  // of fat binaries whose kernels were asked for
    std::map<const void *, Variable> variables;
};

Registry &create_registry();

// Never destroyed: programs unregister, and may launch, while they exit.
Registry &registry() {
    static Registry &instance = create_registry();
    return instance;
}

void lock_for_fork() {
    registry().mutex.lock();
}

void unlock_after_fork() {
    registry().mutex.unlock();
}

// A child must find no lock held by a thread that it does not have.
Registry &create_registry() {
    pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
    return *new Registry;
}

// Without the lock: the driver has locks of its own.
int ask_driver(const Stub &stub, Library &library, Handles &handles) {
    int error = kSuccess;
    if (library == nullptr) {
        error = driver().cuLibraryLoadData(&library, stub.fat_binary, nullptr, nullptr, 0, nullptr,
                                           nullptr, 0);
    }
    if (error == kSuccess) {
        error = driver().cuLibraryGetKernel(&handles.kernel, library, stub.name.c_str());
    }
    if (error == kSuccess) {
        error = driver().cuKernelGetFunction(&handles.function, handles.kernel);
    }
    return error;
}

}  // namespace

void register_kernel(void **fat_binary, const void *host_stub, const char *device_name) {
    const std::lock_guard lock(registry().mutex);
    registry().stubs.insert_or_assign(host_stub, Stub{device_name, fat_binary, {}});
}

void register_variable(const void *host_variable, std::size_t bytes) {
    const std::lock_guard lock(registry().mutex);
    registry().variables[host_variable] = {new char[bytes](), bytes};
}

int find_handles(const void *host_stub, Handles &handles) {
    Registry &known = registry();
    Stub stub;
    Library library = nullptr;
    {
        const std::lock_guard lock(known.mutex);
        const auto found = known.stubs.find(host_stub);
        if (found == known.stubs.end()) {
            return kInvalidDeviceFunction;
        }
        if (found->second.handles.function != nullptr) {
            handles = found->second.handles;
            return kSuccess;
        }
        stub = found->second;
        if (const auto loaded = known.libraries.find(stub.fat_binary);
            loaded != known.libraries.end()) {
            library = loaded->second;
        }
    }
    if (const int error = ask_driver(stub, library, handles); error != kSuccess) {
        return error;
    }
    // Two threads may both have asked: the first one's handles are kept.
    const std::lock_guard lock(known.mutex);
    known.libraries.try_emplace(stub.fat_binary, library);
    Handles &kept = known.stubs[host_stub].handles;
    if (kept.function == nullptr) {
        kept = handles;
    }
    handles = kept;
    return kSuccess;
}

Variable device_variable(const void *host_variable) {
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().variables.find(host_variable);
    return found == registry().variables.end() ? Variable{} : found->second;
}

}  // namespace standin

// What nvcc's generated code calls before main and at exit. Not counted: an observer that attaches
// to a running program has missed it.

#include "cudart/call.h"
#include "cudart/registry.h"

using namespace standin;

extern "C" {

STANDIN_EXPORT void **__cudaRegisterFatBinary(void *fat_binary) {
    return new void *(fat_binary);
}

STANDIN_EXPORT void __cudaRegisterFatBinaryEnd(void ** /*handle*/) {}

STANDIN_EXPORT void __cudaUnregisterFatBinary(void **handle) {
    delete handle;
}

STANDIN_EXPORT void __cudaRegisterFunction(void **handle, const char *host_stub,
                                           char * /*device_function*/, const char *device_name,
                                           int /*thread_limit*/, void * /*thread*/,
                                           void * /*block*/, void * /*block_size*/,
                                           void * /*grid_size*/, int * /*warp_size*/) {
    register_kernel(handle, host_stub, device_name);
}

STANDIN_EXPORT void __cudaRegisterVar(void ** /*handle*/, char *host_variable,
                                      char * /*device_address*/, const char * /*device_name*/,
                                      int /*external*/, std::size_t size, int /*constant*/,
                                      int /*global*/) {
    register_variable(host_variable, size);
}

STANDIN_EXPORT void __cudaRegisterManagedVar(void ** /*handle*/, void ** /*host_variable*/,
                                             char * /*device_address*/,
                                             const char * /*device_name*/, int /*external*/,
                                             std::size_t /*size*/, int /*constant*/,
                                             int /*global*/) {}

STANDIN_EXPORT char __cudaInitModule(void ** /*handle*/) {
    return 1;
}

}  // extern "C"

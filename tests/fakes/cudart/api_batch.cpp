// The functions that copy in batches: each asks the driver's function of its version. Since CUDA 13
// they have no argument for the index of what failed.

#include "cudart/call.h"

namespace standin {
namespace {

using truth::Function;

template <typename... Parameters, typename... Arguments>
int batch_call(Function self, int (*function)(Parameters...), Arguments... arguments) {
    return call(self, [&](const Call &open) -> int {
        if (const int error = use_device(); error != kSuccess) {
            return error;
        }
        core().run_hook(open);
        return on_behalf(open, {}, function, arguments...);
    });
}

// An array of pointers, as the driver has it.
template <typename Pointer>
DevicePointer *addresses(Pointer *pointers) {
    return reinterpret_cast<DevicePointer *>(const_cast<void **>(pointers));
}

}  // namespace
}  // namespace standin

using namespace standin;

#if STANDIN_CUDA_MAJOR < 13
#define STANDIN_DEFINE_BATCHES(suffix)                                                            \
    STANDIN_DEFINE(                                                                               \
        cudaMemcpyBatchAsync##suffix,                                                             \
        (void **to, void **from, std::size_t *bytes, std::size_t count,                           \
         CopyAttributes *attributes, std::size_t *starts, std::size_t attribute_count,            \
         std::size_t *failed, Stream stream),                                                     \
        batch_call(self, driver().cuMemcpyBatchAsync##suffix, addresses(to), addresses(from),     \
                   bytes, count, attributes, starts, attribute_count, failed, stream))            \
    STANDIN_DEFINE(cudaMemcpy3DBatchAsync##suffix,                                                \
                   (std::size_t count, BatchedCopy3D *copies, std::size_t *failed,                \
                    unsigned long long flags, Stream stream),                                     \
                   batch_call(self, driver().cuMemcpy3DBatchAsync##suffix, count, copies, failed, \
                              flags, stream))
#else
#define STANDIN_DEFINE_BATCHES(suffix)                                                       \
    STANDIN_DEFINE(cudaMemcpyBatchAsync##suffix,                                             \
                   (void *const *to, const void *const *from, const std::size_t *bytes,      \
                    std::size_t count, CopyAttributes *attributes, std::size_t *starts,      \
                    std::size_t attribute_count, Stream stream),                             \
                   batch_call(self, driver().cuMemcpyBatchAsync_v2##suffix, addresses(to),   \
                              addresses(from), const_cast<std::size_t *>(bytes), count,      \
                              attributes, starts, attribute_count, stream))                  \
    STANDIN_DEFINE(                                                                          \
        cudaMemcpy3DBatchAsync##suffix,                                                      \
        (std::size_t count, BatchedCopy3D *copies, unsigned long long flags, Stream stream), \
        batch_call(self, driver().cuMemcpy3DBatchAsync_v2##suffix, count, copies, flags, stream))
#endif

extern "C" {

STANDIN_DEFINE_BATCHES()
STANDIN_DEFINE_BATCHES(_ptsz)

}  // extern "C"

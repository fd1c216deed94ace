// The functions that fill memory.

#include "driver/call.h"
#include "driver/contexts.h"
#include "driver/cuda.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/truth_writer.h"

#include <algorithm>
#include <cstring>

namespace standin {
namespace {

using truth::CopyMode;
using truth::Function;

constexpr std::size_t kSetForReal = std::size_t{1} << 20U;

template <typename Value>
void fill_rows(DevicePointer to, std::size_t pitch, Value value, std::size_t width,
               std::size_t height) {
    std::size_t left = kSetForReal / sizeof(Value);
    for (std::size_t row = 0; row < height && left != 0; ++row) {
        const std::size_t count = std::min(width, left);
        std::fill_n(reinterpret_cast<Value *>(to + row * pitch), count, value);
        left -= count;
    }
}

// Everything that a wrong shape could touch has to be allocated.
template <typename Value>
int set_call(Function self, CopyMode mode, DevicePointer to, std::size_t pitch, Value value,
             std::size_t width, std::size_t height, Stream stream = nullptr) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        if (!is_stream(stream)) {
            return kInvalidResourceHandle;
        }
        std::size_t row = 0;
        std::size_t span = 0;
        if (__builtin_mul_overflow(width, sizeof(Value), &row) || to % sizeof(Value) != 0 ||
            (height > 1 && (pitch < row || pitch % sizeof(Value) != 0)) ||
            __builtin_mul_overflow(pitch, height == 0 ? 0 : height - 1, &span) ||
            __builtin_add_overflow(span, row, &span)) {
            return kInvalidValue;
        }
        const std::size_t bytes = row * height;
        if (bytes != 0 && !is_allocated(reinterpret_cast<void *>(to), span)) {
            return kInvalidValue;
        }
        run_hook(open);
        fill_rows(to, pitch, value, width, height);
        if (counts(open)) {
            count_set(current.device, mode, open.bytes.value_or(bytes));
        }
        return kSuccess;
    });
}

}  // namespace
}  // namespace standin

using namespace standin;

#define STANDIN_DEFINE_SETS(bits)                                                         \
    STANDIN_DEFINE_BOTH(cuMemsetD##bits##_v2, _ptds,                                      \
                        (DevicePointer to, std::uint##bits##_t value, std::size_t count), \
                        set_call(self, CopyMode::sync, to, 0, value, count, 1))           \
    STANDIN_DEFINE_BOTH(cuMemsetD2D##bits##_v2, _ptds,                                    \
                        (DevicePointer to, std::size_t pitch, std::uint##bits##_t value,  \
                         std::size_t width, std::size_t height),                          \
                        set_call(self, CopyMode::sync, to, pitch, value, width, height))  \
    STANDIN_DEFINE_BOTH(                                                                  \
        cuMemsetD##bits##Async, _ptsz,                                                    \
        (DevicePointer to, std::uint##bits##_t value, std::size_t count, Stream stream),  \
        set_call(self, CopyMode::async, to, 0, value, count, 1, stream))                  \
    STANDIN_DEFINE_BOTH(cuMemsetD2D##bits##Async, _ptsz,                                  \
                        (DevicePointer to, std::size_t pitch, std::uint##bits##_t value,  \
                         std::size_t width, std::size_t height, Stream stream),           \
                        set_call(self, CopyMode::async, to, pitch, value, width, height, stream))

extern "C" {

STANDIN_DEFINE_SETS(8)
STANDIN_DEFINE_SETS(16)
STANDIN_DEFINE_SETS(32)

}  // extern "C"

// The functions that fill memory.

#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/cuda.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/shapes.h"
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

// A memset that is done when the call returns is one that waits for its stream.
std::optional<int> captured_set(const Call &open, CopyMode mode, Stream stream, std::size_t bytes,
                                bool is_flat) {
    if (mode == CopyMode::sync) {
        const int error = forbidden_to_wait(OnStream{open.function, stream});
        return error == kSuccess ? std::nullopt : std::optional<int>(error);
    }
    return captured(open, stream, [&] {
        Work work;
        work.type = kSetNode;
        work.bytes = open.bytes.value_or(bytes);
        work.is_flat = is_flat;
        return work;
    });
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
        std::size_t bytes = 0;
        std::size_t span = 0;
        if (!measure_set(to, pitch, sizeof(Value), width, height, bytes, span)) {
            return kInvalidValue;
        }
        if (bytes != 0 && !is_allocated(reinterpret_cast<void *>(to), span)) {
            return kInvalidValue;
        }
        run_hook(open);
        if (const auto result = captured_set(open, mode, stream, bytes, height == 1)) {
            return *result;
        }
        fill_rows(to, pitch, value, width, height);
        if (counts(open)) {
            count_set(current.device, mode, open.bytes.value_or(bytes));
        }
        return kSuccess;
    });
}

}  // namespace

bool measure_set(DevicePointer to, std::size_t pitch, std::size_t element_bytes, std::size_t width,
                 std::size_t height, std::size_t &bytes, std::size_t &span) {
    std::size_t row = 0;
    if (__builtin_mul_overflow(width, element_bytes, &row) || to % element_bytes != 0 ||
        (height > 1 && (pitch < row || pitch % element_bytes != 0)) ||
        __builtin_mul_overflow(pitch, height == 0 ? 0 : height - 1, &span) ||
        __builtin_add_overflow(span, row, &span)) {
        return false;
    }
    bytes = row * height;
    return true;
}

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

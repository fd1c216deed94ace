// The functions that copy in batches, of CUDA 12.8 (with an index of what failed) and 13.

#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/cuda.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/shapes.h"
#include "driver/truth_writer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace standin {
namespace {

using truth::CopyMode;
using truth::Function;

constexpr int kLastSourceOrder = 3;

// Which copies of a batch have which attributes.
struct Attributes {
    const CopyAttributes *of;
    const std::size_t *starts;
    std::size_t count;
};

bool is_source_order(int order) {
    return order > 0 && order <= kLastSourceOrder;
}

// An attribute is for the copies from its start on, up to that of the next one.
bool are_valid(const Attributes &attributes, std::size_t copies) {
    if (attributes.count > copies || (attributes.count == 0) != (copies == 0)) {
        return false;
    }
    for (std::size_t i = 0; i < attributes.count; ++i) {
        const bool follows =
            i == 0 ? attributes.starts[0] == 0 : attributes.starts[i] > attributes.starts[i - 1];
        if (!follows || attributes.starts[i] >= copies ||
            !is_source_order(attributes.of[i].source_order)) {
            return false;
        }
    }
    return true;
}

struct Ends {
    char *to;
    const char *from;
};

struct Flat {
    Ends ends;
    std::size_t bytes;

    bool is_valid() const { return bytes == 0 || (ends.to != nullptr && ends.from != nullptr); }
    std::size_t size() const { return bytes; }
    void run() const {
        if (bytes != 0) {
            std::memmove(ends.to, ends.from, std::min(bytes, kCopiedForReal));
        }
    }
};

// Without lengths of their own, rows and layers follow each other.
std::size_t row_of(const CopyOperand &operand, const Extent &extent) {
    return operand.of.memory.row_length != 0 ? operand.of.memory.row_length : extent.width;
}
std::size_t layer_of(const CopyOperand &operand, const Extent &extent) {
    const std::size_t rows = operand.of.memory.layer_height;
    return row_of(operand, extent) * (rows != 0 ? rows : extent.height);
}

struct Deep {
    BatchedCopy3D copy;
    Ends ends;

    bool is_valid() const {
        const Extent &extent = copy.extent;
        const auto is_operand = [&](const CopyOperand &operand) {
            const CopyOperand::Memory &memory = operand.of.memory;
            return operand.type == kPointerOperand && memory.pointer != 0 &&
                   row_of(operand, extent) >= extent.width &&
                   (memory.layer_height == 0 || memory.layer_height >= extent.height);
        };
        return size() != 0 && is_operand(copy.to) && is_operand(copy.from) &&
               is_source_order(copy.source_order);
    }
    std::size_t size() const { return copy.extent.width * copy.extent.height * copy.extent.depth; }
    void run() const {
        const Extent &extent = copy.extent;
        for (std::size_t z = 0; z < extent.depth; ++z) {
            for (std::size_t y = 0; y < extent.height; ++y) {
                std::memmove(
                    ends.to + z * layer_of(copy.to, extent) + y * row_of(copy.to, extent),
                    ends.from + z * layer_of(copy.from, extent) + y * row_of(copy.from, extent),
                    extent.width);
            }
        }
    }
};

char *at_address(DevicePointer address) {
    return reinterpret_cast<char *>(address);
}

void say(std::size_t *failed, std::size_t index) {
    if (failed != nullptr) {
        *failed = index;
    }
}

// `make` gives the copy of an index. Nothing is copied if one of them is wrong.
template <typename Make>
int run_batch(const Call &open, std::size_t count, std::size_t *failed, Stream stream,
              Make &&make) {
    const Current current = current_context();
    if (current.error != kSuccess) {
        return current.error;
    }
    if (!is_stream(stream)) {
        return kInvalidResourceHandle;
    }
    if (const int error = forbidden_in_batch({open.function, stream}); error != kSuccess) {
        return error;
    }
    std::vector<decltype(make(0))> copies;
    for (std::size_t i = 0; i < count; ++i) {
        copies.push_back(make(i));
        if (!copies.back().is_valid()) {
            say(failed, i);
            return kInvalidValue;
        }
    }
    run_hook(open);
    for (const auto &copy : copies) {
        copy.run();
        if (counts(open)) {
            count_copy(current.device,
                       copy_kind(is_device_memory(copy.ends.to), is_device_memory(copy.ends.from)),
                       CopyMode::async, copy.size());
        }
    }
    return kSuccess;
}

int batch_call(Function self, const DevicePointer *to, const DevicePointer *from,
               const std::size_t *bytes, std::size_t count, const Attributes &attributes,
               std::size_t *failed, Stream stream) {
    return call(self, [&](const Call &open) -> int {
        say(failed, SIZE_MAX);
        if (!are_valid(attributes, count)) {
            return kInvalidValue;
        }
        return run_batch(open, count, failed, stream, [&](std::size_t i) {
            return Flat{{at_address(to[i]), at_address(from[i])}, bytes[i]};
        });
    });
}

int batch_call(Function self, std::size_t count, const BatchedCopy3D *copies, std::size_t *failed,
               unsigned long long flags, Stream stream) {
    return call(self, [&](const Call &open) -> int {
        say(failed, SIZE_MAX);
        if (flags != 0) {
            return kInvalidValue;
        }
        return run_batch(open, count, failed, stream, [&](std::size_t i) {
            return Deep{copies[i],
                        {at_address(copies[i].to.of.memory.pointer),
                         at_address(copies[i].from.of.memory.pointer)}};
        });
    });
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE_BOTH(cuMemcpyBatchAsync, _ptsz,
                    (DevicePointer * to, DevicePointer *from, std::size_t *bytes, std::size_t count,
                     CopyAttributes *attributes, std::size_t *starts, std::size_t attribute_count,
                     std::size_t *failed, Stream stream),
                    batch_call(self, to, from, bytes, count, {attributes, starts, attribute_count},
                               failed, stream))
STANDIN_DEFINE_BOTH(cuMemcpyBatchAsync_v2, _ptsz,
                    (DevicePointer * to, DevicePointer *from, std::size_t *bytes, std::size_t count,
                     CopyAttributes *attributes, std::size_t *starts, std::size_t attribute_count,
                     Stream stream),
                    batch_call(self, to, from, bytes, count, {attributes, starts, attribute_count},
                               nullptr, stream))
STANDIN_DEFINE_BOTH(cuMemcpy3DBatchAsync, _ptsz,
                    (std::size_t count, BatchedCopy3D *copies, std::size_t *failed,
                     unsigned long long flags, Stream stream),
                    batch_call(self, count, copies, failed, flags, stream))
STANDIN_DEFINE_BOTH(cuMemcpy3DBatchAsync_v2, _ptsz,
                    (std::size_t count, BatchedCopy3D *copies, unsigned long long flags,
                     Stream stream),
                    batch_call(self, count, copies, nullptr, flags, stream))

}  // extern "C"

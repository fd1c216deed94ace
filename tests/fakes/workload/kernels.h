// Kernels as nvcc would have left them on the host: a stub function per kernel, with the kernel's
// own mangled name, that launches it. Only the stubs exist; the stand-in runtime computes nothing.

#pragma once

#include "cudart/cudart.h"
#include "workload/known_arguments.h"

#include <array>
#include <cstdint>

void vectorAdd(const float *a, const float *b, float *sum, int count);
void saxpy(int count, float factor, const float *x, float *y);

using Word = std::uint64_t;
void sixteenWords(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word,
                  Word, Word, Word);

namespace demo {

template <typename Value>
void reduce(const Value *in, Value *out, int count);
extern template void reduce<float>(const float *in, float *out, int count);
extern template void reduce<double>(const double *in, double *out, int count);

namespace linear {
void matrix_multiply(const float *a, const float *b, float *product, int rows, int columns);
}

// A launch of sixteenWords with KnownArguments.
void launch_known_arguments();
// A registered kernel of this program.
struct KernelStub {
    const void *stub;
    const char *mangled;
};
const std::array<KernelStub, 6> &kernel_stubs();

// A registered variable on the device, by its shadow on the host.
inline constexpr std::size_t kVariableBytes = 1024;
const void *device_variable();

// What `kernel<<<grid, block>>>(...)` is compiled to: the shape is pushed, the stub pops it.
template <typename... Parameters, typename... Arguments>
void launch(standin::Dim3 grid, standin::Dim3 block, void (*stub)(Parameters...),
            Arguments... arguments) {
    if (__cudaPushCallConfiguration(grid, block, 0, nullptr) == 0) {
        stub(arguments...);
    }
}

}  // namespace demo

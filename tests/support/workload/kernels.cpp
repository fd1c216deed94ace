#include "workload/kernels.h"

namespace {

using standin::Dim3;
using standin::Stream;

template <typename Stub>
const void *address(Stub *stub) {
    return reinterpret_cast<const void *>(stub);
}

template <typename Stub, typename... Arguments>
void pop_and_launch(Stub *stub, Arguments &...of) {
    Dim3 grid;
    Dim3 block;
    std::size_t shared_bytes = 0;
    Stream stream = nullptr;
    if (__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream) != standin::kSuccess) {
        return;
    }
    void *arguments[] = {const_cast<void *>(static_cast<const void *>(&of))...};
    cudaLaunchKernel(address(stub), grid, block, arguments, shared_bytes, stream);
}

void **g_fat_binary = nullptr;
int g_image = 0;  // stands for the device code

void register_stub(const void *stub, const char *mangled) {
    __cudaRegisterFunction(g_fat_binary, static_cast<const char *>(stub),
                           const_cast<char *>(mangled), mangled, -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
}

__attribute__((constructor)) void register_all() {
    g_fat_binary = __cudaRegisterFatBinary(&g_image);
    register_stub(address(vectorAdd), "_Z9vectorAddPKfS0_Pfi");
    register_stub(address(saxpy), "_Z5saxpyifPKfPf");
    register_stub(address(demo::reduce<float>), "_ZN4demo6reduceIfEEvPKT_PS1_i");
    register_stub(address(demo::reduce<double>), "_ZN4demo6reduceIdEEvPKT_PS1_i");
    register_stub(address(demo::linear::matrix_multiply),
                  "_ZN4demo6linear15matrix_multiplyEPKfS2_Pfii");
    __cudaRegisterFatBinaryEnd(g_fat_binary);
}

__attribute__((destructor)) void unregister_all() {
    __cudaUnregisterFatBinary(g_fat_binary);
}

}  // namespace

void vectorAdd(const float *a, const float *b, float *sum, int count) {
    pop_and_launch(vectorAdd, a, b, sum, count);
}

void saxpy(int count, float factor, const float *x, float *y) {
    pop_and_launch(saxpy, count, factor, x, y);
}

namespace demo {

template <typename Value>
void reduce(const Value *in, Value *out, int count) {
    pop_and_launch(reduce<Value>, in, out, count);
}

template void reduce<float>(const float *in, float *out, int count);
template void reduce<double>(const double *in, double *out, int count);

namespace linear {
void matrix_multiply(const float *a, const float *b, float *product, int rows, int columns) {
    pop_and_launch(matrix_multiply, a, b, product, rows, columns);
}
}  // namespace linear

}  // namespace demo

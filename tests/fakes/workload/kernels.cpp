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
int g_image = 0;                        // stands for the device code
char g_variable[demo::kVariableBytes];  // the shadow of one on the device

void register_stub(const void *stub, const char *mangled) {
    __cudaRegisterFunction(g_fat_binary, static_cast<const char *>(stub),
                           const_cast<char *>(mangled), mangled, -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
}

__attribute__((constructor)) void register_all() {
    g_fat_binary = __cudaRegisterFatBinary(&g_image);
    for (const demo::KernelStub &kernel : demo::kernel_stubs()) {
        register_stub(kernel.stub, kernel.mangled);
    }
    __cudaRegisterVar(g_fat_binary, g_variable, g_variable, "device_variable", 0, sizeof g_variable,
                      0, 0);
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

// Never called: it is launched with KnownArguments.
void sixteenWords(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word,
                  Word, Word, Word) {}

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

void launch_known_arguments() {
    KnownArguments arguments;
    cudaLaunchKernel(address(sixteenWords), {2, 3, 4}, {5, 6, 7}, arguments.pointers(), 512,
                     nullptr);
}

const std::array<KernelStub, 6> &kernel_stubs() {
    static const std::array<KernelStub, 6> stubs = {{
        {address(vectorAdd), "_Z9vectorAddPKfS0_Pfi"},
        {address(saxpy), "_Z5saxpyifPKfPf"},
        {address(reduce<float>), "_ZN4demo6reduceIfEEvPKT_PS1_i"},
        {address(reduce<double>), "_ZN4demo6reduceIdEEvPKT_PS1_i"},
        {address(linear::matrix_multiply), "_ZN4demo6linear15matrix_multiplyEPKfS2_Pfii"},
        {address(sixteenWords), "_Z12sixteenWordsmmmmmmmmmmmmmmmm"},
    }};
    return stubs;
}

const void *device_variable() {
    return g_variable;
}

}  // namespace demo

// CUDA functions that do nothing, so that a call of one costs what tracing it costs. The runtime's
// launch and allocation can call the driver's, as the real ones do.
#include <stddef.h>
#include <stdint.h>

typedef struct {
    unsigned x, y, z;
} dim3_t;

__attribute__((noinline, noipa)) int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    *address = 0x7f0000000000;
    return bytes == 0;
}

__attribute__((noinline, noipa)) int cuMemFree_v2(uint64_t address) {
    return address == 0;
}

__attribute__((noinline, noipa)) int cuLaunchKernel(void *function, unsigned gx, unsigned gy,
                                                    unsigned gz, unsigned bx, unsigned by,
                                                    unsigned bz, unsigned shared, void *stream,
                                                    void **parameters, void **extra) {
    (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream;
    (void)parameters, (void)extra;
    return function == NULL || gx == 0;
}

__attribute__((noinline, noipa)) int cudaMalloc(void **address, size_t bytes) {
    uint64_t device = 0;
    const int result = cuMemAlloc_v2(&device, bytes);
    *address = (void *)device;
    return result;
}

__attribute__((noinline, noipa)) int cudaFree(void *address) {
    return cuMemFree_v2((uint64_t)address);
}

__attribute__((noinline, noipa)) int cudaMemcpy(void *to, const void *from, size_t bytes,
                                                int kind) {
    (void)from, (void)bytes, (void)kind;
    return to == NULL;
}

__attribute__((noinline, noipa)) int cudaLaunchKernel(const void *function, dim3_t grid,
                                                      dim3_t block, void **arguments, size_t shared,
                                                      void *stream) {
    return cuLaunchKernel((void *)function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                          (unsigned)shared, stream, arguments, NULL);
}

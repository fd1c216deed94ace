#include "company.h"

#include <stdint.h>

int cudaMalloc(void **address, size_t bytes) {
    unsigned long long device = 0;
    const int result = cuMemAlloc_v2(&device, bytes);

    *address = (void *)(uintptr_t)device;
    return result;
}

int cudaFree(void *address) {
    return cuMemFree_v2((uintptr_t)address) != 0;
}

int cudaMemcpy(void *destination, const void *source, size_t bytes, int kind) {
    return cuMemcpy((uintptr_t)destination, (uintptr_t)source, bytes) != 0 || kind < 0;
}

int cudaDeviceSynchronize(void) {
    return cuCtxSynchronize() != 0;
}

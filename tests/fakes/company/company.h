/* The functions of libcuda.so.1 and libcudart.so.12 that the program beside the tests calls.
 * Results are 0; nothing is copied or launched. */
#ifndef GPUSNOOP_COMPANY_H
#define GPUSNOOP_COMPANY_H

#include <stddef.h>

int cuMemAlloc_v2(unsigned long long *address, size_t bytes);
int cuMemFree_v2(unsigned long long address);
int cuMemcpy(unsigned long long destination, unsigned long long source, size_t bytes);
int cuCtxSynchronize(void);

int cudaMalloc(void **address, size_t bytes);
int cudaFree(void *address);
int cudaMemcpy(void *destination, const void *source, size_t bytes, int kind);
int cudaDeviceSynchronize(void);

#endif

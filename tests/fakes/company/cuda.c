#include "company.h"

/* Where devices have their memory: no address of the process. */
static unsigned long long next = 0x7000000000ULL;

int cuMemAlloc_v2(unsigned long long *address, size_t bytes) {
    *address = next;
    next += (bytes + 511) / 512 * 512;
    return 0;
}

int cuMemFree_v2(unsigned long long address) {
    return address < next ? 0 : 1;
}

int cuMemcpy(unsigned long long destination, unsigned long long source, size_t bytes) {
    return destination == source && bytes != 0 ? 1 : 0;
}

int cuCtxSynchronize(void) {
    return next == 0;
}

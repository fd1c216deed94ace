// CUDA functions that do nothing, so that a call costs only the tracing. The runtime's launch and
// allocation call the driver's, as the real ones do.
//
// On x86_64 every function begins with a push, as all that we trace in NVIDIA's libcudart.so.13 do:
// a probe replaces it by an int3 and emulates it. Most other instructions are single-stepped, which
// costs ten times as much on a virtual machine and hides what the programs cost.
// NOP_ENTRY: it begins with a 5-byte nop, which Linux 6.18 and later replace by a call (optimized
// uprobes): no trap at all.
// RUNTIME_ONLY, DRIVER_ONLY: the other layer's functions have names that tracers ignore.
#include <stddef.h>
#include <stdint.h>

#ifdef RUNTIME_ONLY
#define cuMemAlloc_v2 untraced_cuMemAlloc_v2
#define cuMemFree_v2 untraced_cuMemFree_v2
#define cuLaunchKernel untraced_cuLaunchKernel
#endif
#ifdef DRIVER_ONLY
#define cudaMalloc untraced_cudaMalloc
#define cudaFree untraced_cudaFree
#define cudaMemcpy untraced_cudaMemcpy
#define cudaLaunchKernel untraced_cudaLaunchKernel
#endif

#ifdef __x86_64__
#ifdef NOP_ENTRY
#define FIRST_INSTRUCTIONS ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"
#else
#define FIRST_INSTRUCTIONS "push %rbp; pop %rbp"
#endif
// `name` is the first instructions and a jump to the function. Aligned, as the nop must not cross a
// page.
#define ENTRY(name)                                                   \
    __asm__(                                                          \
        ".pushsection .text\n"                                        \
        ".p2align 4\n"                                                \
        ".globl " #name                                               \
        "\n"                                                          \
        ".type " #name ", @function\n" #name ":\n" FIRST_INSTRUCTIONS \
        "\n"                                                          \
        "jmp " #name                                                  \
        "_body\n"                                                     \
        ".size " #name ", . - " #name                                 \
        "\n"                                                          \
        ".popsection");                                               \
    __attribute__((visibility("hidden"), noinline, noipa)) int name##_body
#else
#define ENTRY(name) __attribute__((noinline, noipa)) int name
#endif
// Its argument may be a macro: ENTRY's is used as a string, where macros are not replaced.
#define FUNCTION(name) ENTRY(name)

typedef struct {
    unsigned x, y, z;
} dim3_t;

// Without prototypes the stubs' names would be unknown to C.
int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemFree_v2(uint64_t address);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra);

FUNCTION(cuMemAlloc_v2)(uint64_t *address, size_t bytes) {
    *address = 0x7f0000000000;
    return bytes == 0;
}

FUNCTION(cuMemFree_v2)(uint64_t address) {
    return address == 0;
}

FUNCTION(cuLaunchKernel)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                         unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters,
                         void **extra) {
    (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream;
    (void)parameters, (void)extra;
    return function == NULL || gx == 0;
}

FUNCTION(cudaMalloc)(void **address, size_t bytes) {
    uint64_t device = 0;
    const int result = cuMemAlloc_v2(&device, bytes);
    *address = (void *)device;
    return result;
}

FUNCTION(cudaFree)(void *address) {
    return cuMemFree_v2((uint64_t)address);
}

FUNCTION(cudaMemcpy)(void *to, const void *from, size_t bytes, int kind) {
    (void)from, (void)bytes, (void)kind;
    return to == NULL;
}

FUNCTION(cudaLaunchKernel)(const void *function, dim3_t grid, dim3_t block, void **arguments,
                           size_t shared, void *stream) {
    return cuLaunchKernel((void *)function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                          (unsigned)shared, stream, arguments, NULL);
}

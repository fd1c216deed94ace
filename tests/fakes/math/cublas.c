/* A libcublas.so.12 that computes nothing: functions that a program can call without a GPU, with
 * the results that cublas_api.h has. */
#define EXPORTED __attribute__((visibility("default"), noinline))

enum { SUCCESS = 0, NOT_SUPPORTED = 15 };

/* Keeps the functions apart: each has instructions of its own. */
#define WORK(number) __asm__ volatile("" : : "r"(number) : "memory")

EXPORTED int cublasCreate_v2(void **handle) {
    static int made;
    *handle = &made;
    return SUCCESS;
}

EXPORTED int cublasSgemm_v2(void *handle) {
    WORK(handle);
    return SUCCESS;
}

EXPORTED int cublasGemmEx(void *handle) {
    WORK(handle);
    return NOT_SUPPORTED;
}

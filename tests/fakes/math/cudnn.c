/* A libcudnn.so.9 that computes nothing, as cublas.c. */
#define EXPORTED __attribute__((visibility("default"), noinline))

enum { SUCCESS = 0, BAD_PARAM = 2000 };

EXPORTED int cudnnCreate(void **handle) {
    static int made;
    *handle = &made;
    return SUCCESS;
}

EXPORTED int cudnnBackendExecute(void *handle) {
    __asm__ volatile("" : : "r"(handle) : "memory");
    return SUCCESS;
}

EXPORTED int cudnnBackendFinalize(void *descriptor) {
    __asm__ volatile("" : : "r"(descriptor) : "memory");
    return BAD_PARAM;
}

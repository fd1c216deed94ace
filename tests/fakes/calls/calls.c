#include "calls/calls.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "calls/count.h"

long calls_plain(long number) {
    const uint64_t began = count_begin(CALLS_plain);
    count_end(CALLS_plain, began);
    return 3 * number + 1;
}

long calls_eight(long a, long b, long c, long d, long e, long f, long g, long h) {
    const uint64_t began = count_begin(CALLS_eight);
    count_end(CALLS_eight, began);
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}

#define CALLS_DEFINE_STATUS(id)                           \
    int calls_##id(int code) {                            \
        const uint64_t began = count_begin(CALLS_##id);   \
        count_end_with(CALLS_##id, began, (int64_t)code); \
        return code;                                      \
    }

CALLS_DEFINE_STATUS(status)
CALLS_DEFINE_STATUS(cublas)
CALLS_DEFINE_STATUS(cudnn)
CALLS_DEFINE_STATUS(nccl)
CALLS_DEFINE_STATUS(cuda)

void *calls_find(long key) {
    const uint64_t began = count_begin(CALLS_find);
    count_end_with(CALLS_find, began, key == 0 ? 1 : 0);
    return (void *)((uintptr_t)key << 32);
}

/* errno comes last: the counting may use it. */
static int set_errno(int error) {
    errno = error != 0 ? error : EIO;
    return error != 0 ? -1 : 0;
}

int calls_open(int error) {
    const uint64_t began = count_begin(CALLS_open);
    count_end_with(CALLS_open, began, error);
    return set_errno(error);
}

long calls_seek(int error) {
    const uint64_t began = count_begin(CALLS_seek);
    count_end_with(CALLS_seek, began, error);
    return set_errno(error);
}

void *calls_map(int error) {
    static char memory;
    const uint64_t began = count_begin(CALLS_map);
    count_end_with(CALLS_map, began, error);
    return set_errno(error) == 0 ? &memory : NULL;
}

long calls_recurse(int depth) {
    const uint64_t began = count_begin(CALLS_recurse);
    long sum = depth;
    if (depth > 0) {
        const uint64_t before = count_now();
        sum += calls_recurse(depth - 1);
        count_around(CALLS_recurse, before);
    }
    count_end(CALLS_recurse, began);
    return sum;
}

long calls_inner(long number) {
    const uint64_t began = count_begin(CALLS_inner);
    count_end(CALLS_inner, began);
    return number + 1;
}

static long inner(long number) {
    const uint64_t before = count_now();
    const long result = calls_inner(number);
    count_around(CALLS_inner, before);
    return result;
}

long calls_outer(long number) {
    const uint64_t began = count_begin(CALLS_outer);
    const long result = inner(inner(number));
    count_end(CALLS_outer, began);
    return result;
}

static void sleep_for(long milliseconds) {
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (milliseconds > 0 && nanosleep(&left, &left) != 0) {
    }
}

void calls_wait(long milliseconds) {
    const uint64_t began = count_begin(CALLS_wait);
    sleep_for(milliseconds);
    count_end(CALLS_wait, began);
}

void calls_wait_long(long milliseconds) {
    const uint64_t began = count_begin(CALLS_wait_long);
    sleep_for(milliseconds);
    count_end(CALLS_wait_long, began);
}

int calls_sleep(long milliseconds, int b, long c, long d, long e, long *word) {
    const uint64_t began = count_begin(CALLS_sleep);
    sleep_for(milliseconds);
    *word = c + d + e;
    count_end_with(CALLS_sleep, began, b);
    return b;
}

void calls_callback(void (*function)(void *), void *argument) {
    const uint64_t began = count_begin(CALLS_callback);
    function(argument);
    count_end(CALLS_callback, began);
}

long calls_jump(void *to) {
    const uint64_t began = count_begin(CALLS_jump);
    if (to != NULL) {
        longjmp(*(jmp_buf *)to, 1);
    }
    count_end(CALLS_jump, began);
    return 1;
}

long calls_end_thread(int really) {
    const uint64_t began = count_begin(CALLS_end_thread);
    if (really) {
        pthread_exit(NULL);
    }
    count_end(CALLS_end_thread, began);
    return 1;
}

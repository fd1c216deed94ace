/* The C functions of libcalls.so.1. */
#ifndef CALLS_CALLS_H
#define CALLS_CALLS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Traced functions are exported, as those of real libraries are, and are called wherever the code
 * says so: none is inlined, cloned or left out because its result is known. */
#if defined(__GNUC__) && !defined(__clang__)
#define CALLS_TRACED __attribute__((noipa, visibility("default")))
#else
#define CALLS_TRACED __attribute__((noinline, visibility("default")))
#endif

CALLS_TRACED long calls_plain(long number);
/* The last two arguments are on the stack of x86-64, which a return probe must leave alone. */
CALLS_TRACED long calls_eight(long a, long b, long c, long d, long e, long f, long g, long h);

/* These return the code. */
CALLS_TRACED int calls_status(int code);
/* The upper half of the result's register is not 0, as both ABIs allow for an int. */
CALLS_TRACED int calls_dirty(int code);
CALLS_TRACED int calls_cublas(int code);
CALLS_TRACED int calls_cudnn(int code);
CALLS_TRACED int calls_nccl(int code);
CALLS_TRACED int calls_cuda(int code);

/* NULL for 0, otherwise a pointer whose lower half is 0. */
CALLS_TRACED void *calls_find(long key);
/* -1, -1 or NULL, and errno, unless `error` is 0: then errno is something else of no meaning. */
CALLS_TRACED int calls_open(int error);
CALLS_TRACED long calls_seek(int error);
CALLS_TRACED void *calls_map(int error);

/* Calls itself until `depth` is 0: depth + 1 calls. */
CALLS_TRACED long calls_recurse(int depth);
/* Calls calls_inner() twice. */
CALLS_TRACED long calls_outer(long number);
CALLS_TRACED long calls_inner(long number);

/* They sleep, unless it is for 0 ms. */
CALLS_TRACED void calls_wait(long milliseconds);
CALLS_TRACED void calls_wait_long(long milliseconds);
/* The same with more arguments, all of which it changes before it returns `b`. `word` is written.
 */
CALLS_TRACED int calls_sleep(long milliseconds, int b, long c, long d, long e, long *word);

/* Whatever `function` does happens in the middle of the call. */
CALLS_TRACED void calls_callback(void (*function)(void *), void *argument);
/* longjmp() to a jmp_buf; returns for NULL. */
CALLS_TRACED long calls_jump(void *to);
/* pthread_exit(), if told to. */
CALLS_TRACED long calls_end_thread(int really);

#ifdef __cplusplus
}
#endif

#endif

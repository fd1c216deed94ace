/* The functions of libcalls.so.1: what they are called, which of their results are errors, and
 * where a call of them can be counted. For C, for C++ and for the harness. */
#ifndef CALLS_FUNCTIONS_H
#define CALLS_FUNCTIONS_H

/* X(id, symbol, name, errors, recorded)
 *   errors    as gpusnoop::probes::ErrorKind has it
 *   recorded  at_return, or at_entry for those that have no exit that a probe can tell: they never
 *             return, or may end in a jump that is not always taken */
#define CALLS_FUNCTIONS(X)                                                                      \
    X(plain, "calls_plain", "calls_plain", none, at_return)                                     \
    X(eight, "calls_eight", "calls_eight", none, at_return)                                     \
    X(status, "calls_status", "calls_status", nonzero, at_return)                               \
    X(dirty, "calls_dirty", "calls_dirty", nonzero, at_return)                                  \
    X(cublas, "calls_cublas", "calls_cublas", cublas_status, at_return)                         \
    X(cudnn, "calls_cudnn", "calls_cudnn", cudnn_status, at_return)                             \
    X(nccl, "calls_nccl", "calls_nccl", nccl_result, at_return)                                 \
    X(cuda, "calls_cuda", "calls_cuda", cuda_error, at_return)                                  \
    X(find, "calls_find", "calls_find", null, at_return)                                        \
    X(open, "calls_open", "calls_open", errno_value, at_return)                                 \
    X(seek, "calls_seek", "calls_seek", errno_value, at_return)                                 \
    X(map, "calls_map", "calls_map", null, at_return)                                           \
    X(recurse, "calls_recurse", "calls_recurse", none, at_return)                               \
    X(outer, "calls_outer", "calls_outer", none, at_return)                                     \
    X(inner, "calls_inner", "calls_inner", none, at_return)                                     \
    X(wait, "calls_wait", "calls_wait", none, at_return)                                        \
    X(wait_long, "calls_wait_long", "calls_wait_long", none, at_return)                         \
    X(sleep, "calls_sleep", "calls_sleep", nonzero, at_return)                                  \
    X(callback, "calls_callback", "calls_callback", none, at_return)                            \
    X(jump, "calls_jump", "calls_jump", none, at_return)                                        \
    X(end_thread, "calls_end_thread", "calls_end_thread", none, at_return)                      \
    X(cpp_plain, "_ZN5calls5plainEl", "calls::plain", none, at_return)                          \
    X(cpp_choose, "_ZN5calls6chooseEjl", "calls::choose", none, at_return)                      \
    X(cpp_may_throw, "_ZN5calls9may_throwEb", "calls::may_throw", none, at_return)              \
    X(cpp_through, "_ZN5calls7throughEb", "calls::through", none, at_return)                    \
    X(cpp_catches, "_ZN5calls7catchesEb", "calls::catches", none, at_return)                    \
    X(cpp_tail, "_ZN5calls4tailEl", "calls::tail", none, at_return)                             \
    X(cpp_tail_indirect, "_ZN5calls13tail_indirectEl", "calls::tail_indirect", none, at_return) \
    X(cpp_recurse, "_ZN5calls7recurseEi", "calls::recurse", none, at_return)                    \
    X(cpp_twice, "_ZN5calls5twiceIlEET_S1_", "calls::twice<long>", none, at_return)             \
    X(cpp_area, "_ZNK5calls6Square4areaEv", "calls::Square::area", none, at_return)             \
    X(cpp_create, "_ZN5calls6ObjectC1El", "calls::Object::Object", none, at_return)             \
    X(cpp_destroy, "_ZN5calls6ObjectD1Ev", "calls::Object::~Object", none, at_return)           \
    X(cpp_rarely, "_ZN5calls6rarelyEl", "calls::rarely", none, at_return)                       \
    X(cpp_wait, "_ZN5calls4waitEl", "calls::wait", none, at_return)                             \
    X(cpp_sleep, "_ZN5calls5sleepElllllPl", "calls::sleep", none, at_return)                    \
    X(cpp_callback, "_ZN5calls8callbackEPFvPvES0_", "calls::callback", none, at_return)         \
    X(cpp_loop, "_ZN5calls4loopEm", "calls::loop", none, at_return)                             \
    X(cpp_maybe_tail, "_ZN5calls10maybe_tailEl", "calls::maybe_tail", none, at_entry)           \
    X(cpp_fail, "_ZN5calls4failEi", "calls::fail", none, at_entry)

enum calls_function {
#define CALLS_ID(id, symbol, name, errors, recorded) CALLS_##id,
    CALLS_FUNCTIONS(CALLS_ID)
#undef CALLS_ID
        CALLS_FUNCTION_COUNT
};

#endif

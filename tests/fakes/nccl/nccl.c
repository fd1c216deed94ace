/* A libnccl.so.2 that communicates nothing: NCCL's functions with the arguments that its nccl.h
 * gives them. A null stream is a valid one; a communicator that is null is an error, as there. */
#include <stddef.h>

#include "communicators.h"

/* Keeps calls from being merged or left out. */
static int answer(const struct communicator *communicator) {
    __asm__ volatile("" : : "r"(communicator) : "memory");
    if (!communicator) {
        return INVALID_ARGUMENT;
    }
    return communicator->blocks ? SUCCESS : IN_PROGRESS;
}

EXPORTED int ncclAllReduce(const void *from, void *to, size_t count, int datatype, int op,
                           struct communicator *communicator, void *stream) {
    __asm__ volatile("" : : "r"(from), "r"(to), "r"(count), "r"(datatype), "r"(op), "m"(stream));
    return answer(communicator);
}

EXPORTED int ncclReduce(const void *from, void *to, size_t count, int datatype, int op, int root,
                        struct communicator *communicator, void *stream) {
    __asm__ volatile(""
                     :
                     : "r"(from), "r"(to), "r"(count), "r"(datatype), "r"(op), "m"(stream),
                       "m"(root));
    return answer(communicator);
}

EXPORTED int ncclBroadcast(const void *from, void *to, size_t count, int datatype, int root,
                           struct communicator *communicator, void *stream) {
    __asm__ volatile("" : : "r"(from), "r"(to), "r"(count), "r"(datatype), "r"(root), "m"(stream));
    return answer(communicator);
}

EXPORTED int ncclBcast(void *buffer, size_t count, int datatype, int root,
                       struct communicator *communicator, void *stream) {
    int result = ncclBroadcast(buffer, buffer, count, datatype, root, communicator, stream);

    __asm__ volatile("" : "+r"(result));
    return result;
}

EXPORTED int ncclAllGather(const void *from, void *to, size_t count, int datatype,
                           struct communicator *communicator, void *stream) {
    __asm__ volatile("" : : "r"(from), "r"(to), "r"(count), "r"(datatype), "m"(stream));
    return answer(communicator);
}

EXPORTED int ncclSend(const void *buffer, size_t count, int datatype, int peer,
                      struct communicator *communicator, void *stream) {
    __asm__ volatile("" : : "r"(buffer), "r"(count), "r"(datatype), "r"(peer), "m"(stream));
    return answer(communicator);
}

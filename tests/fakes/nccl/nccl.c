/* A libnccl.so.2 that communicates nothing: NCCL's functions with the arguments that its nccl.h
 * gives them. A null stream is a valid one; a communicator that is null is an error, as there. */
#include <stddef.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default"), noinline))

enum { SUCCESS = 0, INVALID_ARGUMENT = 4 };

typedef struct {
    char internal[128];
} unique_id;

struct communicator {
    int rank;
};

/* Keeps calls from being merged or left out. */
static int answer(const struct communicator *communicator) {
    __asm__ volatile("" : : "r"(communicator) : "memory");
    return communicator ? SUCCESS : INVALID_ARGUMENT;
}

EXPORTED int ncclCommInitRank(struct communicator **communicator, int nranks, unique_id id,
                              int rank) {
    __asm__ volatile("" : : "m"(id), "r"(nranks) : "memory");
    *communicator = malloc(sizeof(**communicator));
    (*communicator)->rank = rank;
    return SUCCESS;
}

EXPORTED int ncclCommInitRankScalable(struct communicator **communicator, int nranks, int rank,
                                      int ids, unique_id *id, void *config) {
    __asm__ volatile("" : : "r"(id), "r"(nranks), "r"(ids), "r"(config) : "memory");
    *communicator = malloc(sizeof(**communicator));
    (*communicator)->rank = rank;
    return SUCCESS;
}

EXPORTED int ncclCommSplit(struct communicator *communicator, int color, int key,
                           struct communicator **made, void *config) {
    __asm__ volatile("" : : "r"(color), "r"(config) : "memory");
    *made = malloc(sizeof(**made));
    (*made)->rank = key;
    return answer(communicator);
}

EXPORTED int ncclCommDestroy(struct communicator *communicator) {
    free(communicator);
    return SUCCESS;
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

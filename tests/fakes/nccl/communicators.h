#ifndef STANDIN_NCCL_COMMUNICATORS_H
#define STANDIN_NCCL_COMMUNICATORS_H

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default"), noinline))

enum { SUCCESS = 0, INVALID_ARGUMENT = 4, IN_PROGRESS = 7 };
enum { NO_COLOR = -1 };

typedef struct {
    char internal[128];
} unique_id;

/* The first members of ncclConfig_t. */
struct config {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
};

struct communicator {
    unsigned long id; /* the same of all its ranks */
    int rank;
    int nranks;
    int blocks;
    int splits;
};

#endif

/* How communicators are made and end. As in NCCL, all ranks of a communicator wait for each other
 * in ncclCommSplit, and it gives ranks by color, key and the rank before. Here they must be threads
 * of one process; of a communicator whose id begins with 'L' ("lonely") this process has one rank,
 * and the part has the rank `key`. In a group of calls, handles are written at its end; of a split
 * of a communicator that does not block, when the program asks how far the parent is. */
#include "communicators.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_RANKS = 64, MOST_DEFERRED = 64 };

struct split {
    unsigned long parent;
    int number;
    int arrived;
    int color[MOST_RANKS];
    int key[MOST_RANKS];
    struct split *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct split *splits;

/* What is left to do of a call when it has returned. */
struct deferred {
    struct communicator **at;
    struct communicator *made;
    const struct communicator *parent; /* of a split, else null */
    const struct split *split;
    int parent_rank;
    int parent_nranks;
};

static _Thread_local int group_depth;
static _Thread_local struct deferred deferred[MOST_DEFERRED];
static _Thread_local int deferred_count;

static struct communicator *make(unsigned long id, int rank, int nranks, const struct config *how) {
    struct communicator *made = malloc(sizeof(*made));

    *made = (struct communicator){.id = id, .rank = rank, .nranks = nranks};
    made->blocks = !how || how->blocking != 0;
    return made;
}

static unsigned long number_of(const unique_id *id) {
    unsigned long number = 5381;

    for (size_t i = 0; i < sizeof(id->internal); i++) {
        number = number * 33 + (unsigned char)id->internal[i];
    }
    return id->internal[0] == 'L' ? number | 1UL << 63 : number & ~(1UL << 63);
}

static int is_lonely(unsigned long id) {
    return id >> 63 != 0;
}

/* Waits for all ranks of the parent, and gives the part its rank. */
static void conclude(const struct deferred *of) {
    if (of->split) {
        const int color = of->split->color[of->parent_rank];
        const int key = of->split->key[of->parent_rank];

        pthread_mutex_lock(&mutex);
        while (of->split->arrived < of->parent_nranks) {
            pthread_cond_wait(&changed, &mutex);
        }
        pthread_mutex_unlock(&mutex);
        for (int rank = 0; of->made && rank < of->parent_nranks; rank++) {
            const int is_before = of->split->key[rank] < key ||
                                  (of->split->key[rank] == key && rank < of->parent_rank);

            of->made->nranks += of->split->color[rank] == color;
            of->made->rank += of->split->color[rank] == color && is_before;
        }
    }
    if (of->made) {
        *of->at = of->made;
    }
}

/* Now, or when the thread comes to conclude_deferred(). */
static void finish(const struct deferred *what, int later) {
    if (later && deferred_count < MOST_DEFERRED) {
        *what->at = NULL;
        deferred[deferred_count++] = *what;
    } else {
        conclude(what);
    }
}

static void conclude_deferred(const struct communicator *parent) {
    int kept = 0;

    for (int i = 0; i < deferred_count; i++) {
        if (parent && deferred[i].parent != parent) {
            deferred[kept++] = deferred[i];
        } else {
            conclude(&deferred[i]);
        }
    }
    deferred_count = kept;
}

static int init_rank(struct communicator **communicator, int nranks, const unique_id *id, int rank,
                     const struct config *how) {
    struct deferred what = {.at = communicator};

    if (rank < 0 || rank >= nranks) {
        return INVALID_ARGUMENT;
    }
    what.made = make(number_of(id), rank, nranks, how);
    finish(&what, group_depth > 0);
    return what.made->blocks ? SUCCESS : IN_PROGRESS;
}

/* The functions change what they got by value, as a compiler may have them do. */
EXPORTED int ncclCommInitRank(struct communicator **communicator, int nranks, unique_id id,
                              int rank) {
    const int result = init_rank(communicator, nranks, &id, rank, NULL);

    id.internal[7] = 'x';
    __asm__ volatile("" : : "m"(id) : "memory");
    return result;
}

EXPORTED int ncclCommInitRankConfig(struct communicator **communicator, int nranks, unique_id id,
                                    int rank, const struct config *how) {
    const int result = init_rank(communicator, nranks, &id, rank, how);

    id.internal[7] = 'x';
    __asm__ volatile("" : : "m"(id) : "memory");
    return result;
}

EXPORTED int ncclCommInitRankScalable(struct communicator **communicator, int nranks, int rank,
                                      int ids, unique_id *id, const struct config *how) {
    return ids > 0 ? init_rank(communicator, nranks, id, rank, how) : INVALID_ARGUMENT;
}

EXPORTED int ncclCommInitAll(struct communicator **communicators, int devices, const int *list) {
    __asm__ volatile("" : : "r"(list) : "memory");
    for (int rank = 0; rank < devices; rank++) {
        communicators[rank] = make(1, rank, devices, NULL);
    }
    return SUCCESS;
}

static struct split *ask(const struct communicator *parent, int number, int color, int key) {
    struct split *found;

    pthread_mutex_lock(&mutex);
    for (found = splits; found; found = found->next) {
        if (found->parent == parent->id && found->number == number) {
            break;
        }
    }
    if (!found) {
        found = calloc(1, sizeof(*found));
        *found = (struct split){.parent = parent->id, .number = number, .next = splits};
        splits = found;
    }
    found->color[parent->rank] = color;
    found->key[parent->rank] = key;
    found->arrived++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return found;
}

EXPORTED int ncclCommSplit(struct communicator *communicator, int color, int key,
                           struct communicator **made, const struct config *how) {
    struct deferred what = {.at = made, .parent = communicator};

    *made = NULL;
    if (!communicator || communicator->nranks > MOST_RANKS) {
        return INVALID_ARGUMENT;
    }
    communicator->splits++;
    what.parent_rank = communicator->rank;
    what.parent_nranks = communicator->nranks;
    if (color != NO_COLOR) {
        what.made =
            make(communicator->id * 31 + (unsigned)communicator->splits * 7 + (unsigned)color, 0, 0,
                 how);
        what.made->blocks = how ? what.made->blocks : communicator->blocks;
    }
    if (is_lonely(communicator->id)) {
        if (what.made) {
            what.made->id |= 1UL << 63;
            what.made->rank = key;
            what.made->nranks = communicator->nranks;
        }
    } else {
        what.split = ask(communicator, communicator->splits, color, key);
        if (what.made) {
            what.made->id &= ~(1UL << 63);
        }
    }
    finish(&what, group_depth > 0 || !communicator->blocks);
    return communicator->blocks ? SUCCESS : IN_PROGRESS;
}

EXPORTED int ncclCommShrink(struct communicator *communicator, int *excluded, int count,
                            struct communicator **made, const struct config *how, int flags) {
    struct deferred what = {.at = made};

    __asm__ volatile("" : : "r"(flags) : "memory");
    *made = NULL;
    if (!communicator || count < 1 || count >= communicator->nranks) {
        return INVALID_ARGUMENT;
    }
    what.made =
        make(communicator->id * 37 + 1, communicator->rank, communicator->nranks - count, how);
    for (int i = 0; i < count; i++) {
        what.made->rank -= excluded[i] < communicator->rank;
    }
    finish(&what, group_depth > 0);
    return SUCCESS;
}

EXPORTED int ncclGroupStart(void) {
    group_depth++;
    return SUCCESS;
}

EXPORTED int ncclGroupEnd(void) {
    if (group_depth == 0) {
        return INVALID_ARGUMENT;
    }
    if (--group_depth == 0) {
        conclude_deferred(NULL);
    }
    return SUCCESS;
}

EXPORTED int ncclCommGetAsyncError(struct communicator *communicator, int *result) {
    if (!communicator) {
        return INVALID_ARGUMENT;
    }
    conclude_deferred(communicator);
    *result = SUCCESS;
    return SUCCESS;
}

EXPORTED int ncclCommUserRank(const struct communicator *communicator, int *rank) {
    if (!communicator) {
        return INVALID_ARGUMENT;
    }
    *rank = communicator->rank;
    return SUCCESS;
}

EXPORTED int ncclCommCount(const struct communicator *communicator, int *count) {
    if (!communicator) {
        return INVALID_ARGUMENT;
    }
    *count = communicator->nranks;
    return SUCCESS;
}

EXPORTED int ncclCommFinalize(struct communicator *communicator) {
    return communicator ? SUCCESS : INVALID_ARGUMENT;
}

EXPORTED int ncclCommDestroy(struct communicator *communicator) {
    free(communicator);
    return SUCCESS;
}

EXPORTED int ncclCommAbort(struct communicator *communicator) {
    free(communicator);
    return SUCCESS;
}

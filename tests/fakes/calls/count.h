/* What the functions count of themselves. The program adds what it measured around its calls. */
#ifndef CALLS_COUNT_H
#define CALLS_COUNT_H

#include <stdint.h>

#include "calls/functions.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COUNT_EXPORTED __attribute__((visibility("default")))

/* A call that takes as long or longer is slow. Slow calls sleep COUNT_SLEEP_MS, others never. */
#define COUNT_SLOW_NS 50000000
#define COUNT_SLEEP_MS 60

#define COUNT_CODES 16

struct count_code {
    int64_t code; /* 0: none yet */
    uint64_t count;
};

struct count {
    uint64_t entered;
    uint64_t returned;
    /* A probe's duration of a call lies between the one inside and the one around it. So it finds
     * at least `slow` slow calls, and at most `slow_at_most`: a call that the scheduler stops at
     * its edge is slow for some. */
    uint64_t slow;
    uint64_t slow_at_most;
    uint64_t inner_ns;
    uint64_t outer_ns;
    struct count_code codes[COUNT_CODES];
};

/* A call begins. Returns when: what the end of the call wants to have. */
uint64_t count_begin(enum calls_function function);
void count_end(enum calls_function function, uint64_t began);
/* Also counts the error, unless it is 0. */
void count_end_with(enum calls_function function, uint64_t began, int64_t error);

COUNT_EXPORTED uint64_t count_now(void);
/* A call returned to its caller, who had looked at the clock before it. */
COUNT_EXPORTED void count_around(enum calls_function function, uint64_t before);
COUNT_EXPORTED const struct count *count_of(enum calls_function function);

#ifdef __cplusplus
}
#endif

#endif

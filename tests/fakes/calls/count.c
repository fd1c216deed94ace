#include "calls/count.h"

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

static struct count g_counts[CALLS_FUNCTION_COUNT];

static void add(uint64_t *to, uint64_t number) {
    __atomic_fetch_add(to, number, __ATOMIC_RELAXED);
}

/* The clock of the probes: bpf_ktime_get_ns(). */
uint64_t count_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t count_begin(enum calls_function function) {
    add(&g_counts[function].entered, 1);
    return count_now();
}

static void count_error(struct count *count, int64_t error) {
    for (int i = 0; i < COUNT_CODES; i++) {
        int64_t found = 0;
        const bool is_new = __atomic_compare_exchange_n(&count->codes[i].code, &found, error, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        if (is_new || found == error) {
            add(&count->codes[i].count, 1);
            return;
        }
    }
    abort(); /* more codes than there is room for: the truth would not be one */
}

void count_end_with(enum calls_function function, uint64_t began, int64_t error) {
    const uint64_t inside = count_now() - began;
    struct count *count = &g_counts[function];
    add(&count->returned, 1);
    add(&count->inner_ns, inside);
    add(&count->slow, inside >= COUNT_SLOW_NS ? 1 : 0);
    if (error != 0) {
        count_error(count, error);
    }
}

void count_end(enum calls_function function, uint64_t began) {
    count_end_with(function, began, 0);
}

void count_around(enum calls_function function, uint64_t before) {
    const uint64_t around = count_now() - before;
    add(&g_counts[function].outer_ns, around);
    add(&g_counts[function].slow_at_most, around >= COUNT_SLOW_NS ? 1 : 0);
}

const struct count *count_of(enum calls_function function) {
    return &g_counts[function];
}

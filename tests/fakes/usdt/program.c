// marked THREADS TIMES: waits for SIGUSR1. Each of its threads then passes the USDT probes below so
// many times. Prints what it passed, as "NAME calls SUM_INSIDE SUM_AROUND" with nanoseconds, and
// the semaphores; and these again after each further SIGUSR1. THREADS 0: it is between the probes
// of `held` from the first SIGUSR1 to the second.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "mark.h"

SEMAPHORE(marked_guarded_begin_semaphore);
SEMAPHORE(marked_guarded_end_semaphore);

enum { PLAIN, GUARDED, HELD, INNER, AGAIN, KINDS };
static const char *const names[KINDS] = {"plain", "guarded", "held", "inner", "again"};
static atomic_ulong calls[KINDS];
static atomic_ulong inside[KINDS];  // from behind the first probe to before the second
static atomic_ulong around[KINDS];  // from before the first to behind the second
static long times;

static unsigned long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (unsigned long)time.tv_sec * 1000000000UL + (unsigned long)time.tv_nsec;
}

static void rest(long microseconds) {
    const struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

static void note(int kind, unsigned long first, unsigned long begun, unsigned long ending) {
    atomic_fetch_add(&calls[kind], 1);
    atomic_fetch_add(&inside[kind], ending - begun);
    atomic_fetch_add(&around[kind], now() - first);
}

// A function that is traced, too, beside a call that began in a frame that is gone.
STAYS_WHOLE long marked_step(long value) {
    __asm__ volatile("" ::: "memory");
    return value + 1;
}

// Far down on the stack, so that the end lies above.
STAYS_WHOLE void marked_hold(int depth) {
    volatile char frame[256];
    frame[0] = (char)depth;
    if (depth > 0) {
        marked_hold(depth - 1);
    } else {
        MARK(marked, held__begin, 0);
    }
    frame[1] = frame[0];
}

STAYS_WHOLE void marked_let_go(void) {
    MARK(marked, held__end, 0);
}

static void plain(long i) {
    const unsigned long first = now();
    // Two places of one probe.
    if (i % 2 == 0) {
        MARK(marked, plain__begin, 0);
    } else {
        MARK(marked, plain__begin, 0);
    }
    const unsigned long begun = now();
    if (i % 50 == 0) {
        rest(200);
    }
    const unsigned long ending = now();
    if (i % 3 == 0) {
        MARK(marked, plain__end, 0);
    } else {
        MARK(marked, plain__end, 0);
    }
    note(PLAIN, first, begun, ending);
}

// As Python and Java do: nothing is passed while nobody listens.
static void guarded(long i) {
    const unsigned long first = now();
    const int is_on = marked_guarded_begin_semaphore != 0;
    if (is_on) {
        MARK(marked, guarded__begin, marked_guarded_begin_semaphore);
    }
    const unsigned long begun = now();
    const unsigned long inner_first = now();
    MARK(marked, inner__begin, 0);
    const unsigned long inner_begun = now();
    marked_step(i);
    const unsigned long inner_ending = now();
    MARK(marked, inner__end, 0);
    note(INNER, inner_first, inner_begun, inner_ending);
    const unsigned long ending = now();
    if (marked_guarded_end_semaphore != 0) {
        MARK(marked, guarded__end, marked_guarded_end_semaphore);
    }
    if (is_on) {
        note(GUARDED, first, begun, ending);
    }
}

static void held(long i) {
    const unsigned long first = now();
    marked_hold((int)(i % 5));
    const unsigned long begun = now();
    marked_step(i);
    marked_step(i);
    const unsigned long ending = now();
    marked_let_go();
    note(HELD, first, begun, ending);
}

// One that never ends, and the next of the thread.
static void again(void) {
    MARK(marked, again__begin, 0);
    const unsigned long first = now();
    MARK(marked, again__begin, 0);
    const unsigned long begun = now();
    const unsigned long ending = now();
    MARK(marked, again__end, 0);
    note(AGAIN, first, begun, ending);
}

static void *run(void *nothing) {
    for (long i = 0; i < times; i++) {
        plain(i);
        guarded(i);
        held(i);
        if (i % 10 == 0) {
            again();
        }
    }
    return nothing;
}

static void print_semaphores(void) {
    printf("semaphores %u %u\n", marked_guarded_begin_semaphore, marked_guarded_end_semaphore);
    fflush(stdout);
}

int main(int argc, char **argv) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if (argc != 3) {
        fprintf(stderr, "marked THREADS TIMES\n");
        return 1;
    }
    const long threads = atol(argv[1]);
    times = atol(argv[2]);
    int number = 0;
    puts("ready");
    fflush(stdout);
    sigwait(&signals, &number);
    if (threads == 0) {
        marked_hold(2);
        puts("held");
        fflush(stdout);
        sigwait(&signals, &number);
        marked_let_go();
        puts("let go");
        fflush(stdout);
    }
    pthread_t started[64];
    for (long i = 0; i < threads && i < 64; i++) {
        pthread_create(&started[i], NULL, run, NULL);
    }
    for (long i = 0; i < threads && i < 64; i++) {
        pthread_join(started[i], NULL);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        printf("%s %lu %lu %lu\n", names[kind], calls[kind], inside[kind], around[kind]);
    }
    print_semaphores();
    for (;;) {
        sigwait(&signals, &number);
        print_semaphores();
    }
}

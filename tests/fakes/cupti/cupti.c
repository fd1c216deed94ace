/* A libcupti.so.12 that profiles nothing: it has one subscriber at most, as the real one, and
 * cuptiSubscribe calls cuptiSubscribe_v2, as there. */
#include "cupti.h"

#include <pthread.h>
#include <stddef.h>

#define EXPORTED __attribute__((visibility("default"), noinline))

enum { KINDS = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int subscriber_of_all; /* its address is the handle */
static int is_enabled[KINDS];
static struct standin_cupti_counts counts;

EXPORTED int cuptiSubscribe_v2(void **subscriber, void *callback, void *userdata,
                               void *parameters) {
    int result = CUPTI_IS_SUCCESS;

    (void)callback;
    (void)userdata;
    (void)parameters;
    pthread_mutex_lock(&mutex);
    counts.calls++;
    if (counts.subscribers > 0) {
        counts.refused++;
        result = CUPTI_IS_MULTIPLE_SUBSCRIBERS;
    } else {
        counts.subscribers++;
        *subscriber = &subscriber_of_all;
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

EXPORTED int cuptiSubscribe(void **subscriber, void *callback, void *userdata) {
    int result = cuptiSubscribe_v2(subscriber, callback, userdata, NULL);

    __asm__ volatile("" : : : "memory");
    return result;
}

EXPORTED int cuptiUnsubscribe(void *subscriber) {
    int result = CUPTI_IS_SUCCESS;

    pthread_mutex_lock(&mutex);
    counts.calls++;
    if (subscriber != &subscriber_of_all || counts.subscribers == 0) {
        counts.invalid++;
        result = CUPTI_IS_INVALID_PARAMETER;
    } else {
        counts.subscribers--;
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

static int set_activity(int kind, int enabled) {
    pthread_mutex_lock(&mutex);
    counts.calls++;
    if (is_enabled[kind % KINDS] != enabled) {
        counts.activities += enabled ? 1U : -1ULL;
    }
    is_enabled[kind % KINDS] = enabled;
    pthread_mutex_unlock(&mutex);
    return CUPTI_IS_SUCCESS;
}

EXPORTED int cuptiActivityEnable(int kind) {
    int result = set_activity(kind, 1);

    __asm__ volatile("" : : : "memory");
    return result;
}

EXPORTED int cuptiActivityDisable(int kind) {
    int result = set_activity(kind, 0);

    __asm__ volatile("" : : "i"(1) : "memory");
    return result;
}

EXPORTED int cuptiFinalize(void) {
    int i;

    pthread_mutex_lock(&mutex);
    counts.calls++;
    counts.subscribers = 0;
    counts.activities = 0;
    for (i = 0; i < KINDS; i++) {
        is_enabled[i] = 0;
    }
    pthread_mutex_unlock(&mutex);
    return CUPTI_IS_SUCCESS;
}

EXPORTED struct standin_cupti_counts standin_cupti_get_counts(void) {
    struct standin_cupti_counts copy;

    pthread_mutex_lock(&mutex);
    copy = counts;
    pthread_mutex_unlock(&mutex);
    return copy;
}

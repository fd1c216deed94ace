/* The part of CUPTI's C interface that the stand-in offers, and what it counts of its calls. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum cupti_result {
    CUPTI_IS_SUCCESS = 0,
    CUPTI_IS_INVALID_PARAMETER = 1,
    CUPTI_IS_MULTIPLE_SUBSCRIBERS = 39,
};

int cuptiSubscribe(void **subscriber, void *callback, void *userdata);
int cuptiSubscribe_v2(void **subscriber, void *callback, void *userdata, void *parameters);
int cuptiUnsubscribe(void *subscriber);
int cuptiActivityEnable(int kind);
int cuptiActivityDisable(int kind);
int cuptiFinalize(void);

struct standin_cupti_counts {
    unsigned long long subscribers; /* now */
    unsigned long long activities;  /* that are enabled now */
    unsigned long long calls;       /* by programs, without those inside others */
    unsigned long long refused;     /* of cuptiSubscribe, as there was a subscriber */
    unsigned long long invalid;     /* of cuptiUnsubscribe, as there was no such subscriber */
};
struct standin_cupti_counts standin_cupti_get_counts(void);

#ifdef __cplusplus
}
#endif

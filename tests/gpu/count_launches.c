// A truth about launches that no framework has to give: CUPTI calls this library at each of the
// driver's. The driver loads it into a program that runs with CUDA_INJECTION64_PATH. frameworks.py
// asks it, in a process that no exporter counts.
#include <cupti.h>
#include <stdio.h>
#include <string.h>

#define MAX_KERNELS 4096

static struct {
    char name[512];
    unsigned long long launches;
} kernels[MAX_KERNELS];
static size_t known;
static unsigned long long kernel_launches, graph_launches, failed;

static void count_kernel(const char *name) {
    __atomic_add_fetch(&kernel_launches, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < known; i++) {
        if (strncmp(kernels[i].name, name, sizeof(kernels[i].name) - 1) == 0) {
            kernels[i].launches++;
            return;
        }
    }
    if (known < MAX_KERNELS) {
        snprintf(kernels[known].name, sizeof(kernels[known].name), "%s", name);
        kernels[known++].launches = 1;
    }
}

static void CUPTIAPI at_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId function,
                             const void *about) {
    (void)unused;
    (void)domain;
    const CUpti_CallbackData *call = about;
    if (call->callbackSite != CUPTI_API_EXIT) {
        return;
    }
    if (*(const CUresult *)call->functionReturnValue != CUDA_SUCCESS) {
        __atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
    } else if (function == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch ||
               function == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz) {
        __atomic_add_fetch(&graph_launches, 1, __ATOMIC_RELAXED);
    } else {
        count_kernel(call->symbolName ? call->symbolName : "");
    }
}

static const CUpti_CallbackId launches[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
};

// The driver calls this when it has loaded the library.
int InitializeInjection(void) {
    CUpti_SubscriberHandle subscriber;
    if (cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)at_call, NULL) != CUPTI_SUCCESS) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
        cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, launches[i]);
    }
    return 1;
}

// For the program itself, while it launches nothing. Names are counted for one launching thread.
void launches_begin(void) {
    memset(kernels, 0, sizeof(kernels));
    known = 0;
    kernel_launches = graph_launches = failed = 0;
}

void launches_write(const char *path) {
    FILE *const file = fopen(path, "w");
    if (!file) {
        return;
    }
    fprintf(file, "%llu %llu %llu\n", kernel_launches, graph_launches, failed);
    for (size_t i = 0; i < known; i++) {
        fprintf(file, "%llu %s\n", kernels[i].launches, kernels[i].name);
    }
    fclose(file);
}

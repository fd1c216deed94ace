/* Holds device memory, and makes a few calls ten times a second, for as long as it is left alone.
 */
#include "company.h"

#include <stdlib.h>
#include <time.h>

static void check(int result) {
    if (result != 0)
        exit(1);
}

int main(void) {
    const struct timespec pause = {0, 100 * 1000 * 1000};
    static char host[4096];
    void *held = NULL;

    check(cudaMalloc(&held, 1 << 20));
    for (;;) {
        void *device = NULL;

        check(cudaMalloc(&device, sizeof(host)));
        check(cudaMemcpy(device, host, sizeof(host), 1));
        check(cudaDeviceSynchronize());
        check(cudaFree(device));
        nanosleep(&pause, NULL);
    }
}

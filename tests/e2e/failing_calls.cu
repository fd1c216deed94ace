// failing_calls TIMES FILE: waits for FILE, makes each call so many times, says how each ended,
// stays.
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

__global__ void nothing(int *) {}

int main(int, char **arguments) {
    const int times = std::atoi(arguments[1]);
    prctl(PR_SET_NAME, "failing_calls");
    std::puts("ready");
    std::fflush(stdout);
    while (access(arguments[2], F_OK) != 0) {
        usleep(1000);
    }
    for (int i = 0; i < times; i++) {
        void *memory = nullptr;
        int from = 1;
        int to = 0;
        std::printf("cudaMalloc %d\n", cudaMalloc(&memory, 1000));
        std::printf("cudaMemcpy %d\n", cudaMemcpy(&to, &from, sizeof(to), cudaMemcpyHostToHost));
        std::printf("cudaMemcpyAsync %d\n",
                    cudaMemcpyAsync(&to, &from, sizeof(to), cudaMemcpyDefault));
        cudaGetLastError();
        nothing<<<2, 3>>>(nullptr);
        std::printf("cudaLaunchKernel %d\n", cudaGetLastError());
        void *argument = nullptr;
        void *launch_arguments[] = {&argument};
        std::printf("cudaLaunchKernel %d\n",
                    cudaLaunchKernel(nothing, dim3(2), dim3(3), launch_arguments, 0, nullptr));
        std::printf("cudaFree %d\n", cudaFree(&to));
    }
    std::puts("holding");
    std::fflush(stdout);
    while (true) {
        pause();
    }
}

// A believable CUDA program for the stand-in runtime: what `make run` shows and the tests count.

#include "workload/options.h"
#include "workload/worker.h"

#include "cudart/cudart.h"

#include <cstdio>
#include <thread>
#include <vector>

int main(int argc, char **argv) {
    const demo::Options options = demo::parse_options(argc, argv);
    demo::prepare(options);

    demo::SharedMemory shared;
    {
        std::vector<std::jthread> threads;
        for (unsigned index = 0; index < options.threads; ++index) {
            threads.emplace_back(
                [&options, &shared, index] { demo::Worker(options, index, shared).run(); });
        }
    }
    if (options.hold) {
        demo::hold();
    } else {
        for (void *memory : shared.take_all()) {
            cudaFree(memory);
        }
    }
    std::puts("done");
    return 0;
}

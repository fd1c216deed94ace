// A believable CUDA program for the stand-in libraries: what `make run` shows and the tests count.

#include "workload/driver_worker.h"
#include "workload/everything.h"
#include "workload/options.h"
#include "workload/worker.h"

#include "cudart/cudart.h"

#include <cstdio>
#include <thread>
#include <vector>

namespace {

void work(const demo::Options &options, demo::SharedMemory &shared, unsigned index) {
    if (options.everything) {
        demo::Everything everything(options, index);
        if (options.api != demo::Api::driver) {
            add_runtime_actions(everything);
        }
        if (options.api != demo::Api::runtime) {
            add_driver_actions(everything);
        }
        everything.run();
        return;
    }
    if (options.api != demo::Api::driver) {
        demo::Worker(options, index, shared).run();
    }
    if (options.api != demo::Api::runtime) {
        demo::DriverWorker(options, index).run();
    }
}

}  // namespace

int main(int argc, char **argv) {
    const demo::Options options = demo::parse_options(argc, argv);
    demo::prepare(options);

    demo::SharedMemory shared;
    {
        std::vector<std::jthread> threads;
        for (unsigned index = 0; index < options.threads; ++index) {
            threads.emplace_back([&options, &shared, index] { work(options, shared, index); });
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

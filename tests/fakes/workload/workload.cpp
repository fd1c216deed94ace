// A believable CUDA program for the stand-in libraries, which the tests count. With STANDIN_DEMO it
// is the program that `make run` shows, without --everything: its tables take half a minute to
// compile.

#include "workload/driver_worker.h"
#include "workload/options.h"
#include "workload/worker.h"
#ifndef STANDIN_DEMO
#include "workload/everything.h"
#endif

#include "cudart/cudart.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

// What a test of many live allocations wants: no other call, and none of them fails unsaid.
bool hoard(std::uint64_t count) {
    for (std::uint64_t made = 0; made < count && !demo::stop_requested(); ++made) {
        void *never_freed = nullptr;
        if (cudaMalloc(&never_freed, 256) != standin::kSuccess) {
            std::fprintf(stderr, "hoard: no memory for allocation %llu\n",
                         static_cast<unsigned long long>(made));
            return false;
        }
    }
    return true;
}

void work(const demo::Options &options, demo::SharedMemory &shared, unsigned index) {
#ifndef STANDIN_DEMO
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
#endif
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
#ifdef STANDIN_DEMO
    if (options.everything) {
        std::fputs("--everything is an option of the program workload\n", stderr);
        return 2;
    }
#endif
    demo::end_work_at(SIGUSR1);
    demo::prepare(options);
    if (!hoard(options.hoard)) {
        return 1;
    }

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

// A CUDA program without a runtime, as Triton's are: it knows the driver only.

#include "workload/driver_worker.h"
#include "workload/everything.h"
#include "workload/options.h"

#include <cstdio>
#include <thread>
#include <vector>

namespace {

void work(const demo::Options &options, unsigned index) {
    if (!options.everything) {
        demo::DriverWorker(options, index).run();
        return;
    }
    demo::Everything everything(options, index);
    add_driver_actions(everything);
    everything.run();
}

}  // namespace

int main(int argc, char **argv) {
    const demo::Options options = demo::parse_options(argc, argv);
    demo::prepare(options);
    {
        std::vector<std::jthread> threads;
        for (unsigned index = 0; index < options.threads; ++index) {
            threads.emplace_back([&options, index] { work(options, index); });
        }
    }
    if (options.hold) {
        demo::hold();
    }
    std::puts("done");
    return 0;
}

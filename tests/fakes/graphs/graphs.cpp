// graphs SCENARIO [workload options]: captures and graphs, then the line "SCENARIO ok". Of the
// options, --threads, --seed, --api (runtime or driver), --wait-for-file, --name and --hold count
// in all scenarios; --iterations is how often each graph is launched (10), and in `mixed`, which
// also has --seconds and --rate, how many things are done.
// graphs --list: every scenario, and "alone" for those of one thread.

#include "graphs/scenario.h"

#include <atomic>
#include <barrier>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

namespace graphs {
namespace {

std::atomic<bool> g_failed = false;

std::vector<Scenario> all_scenarios() {
    std::vector<Scenario> all;
    for (const auto &group :
         {capture_scenarios(), invalid_scenarios(), graph_scenarios(), mixed_scenarios()}) {
        all.insert(all.end(), group.begin(), group.end());
    }
    return all;
}

void set_up(Thread &thread) {
    void *memory = nullptr;
    OK(thread.calls.begin_thread());
    OK(thread.calls.create_stream(&thread.stream, false));
    OK(thread.calls.create_stream(&thread.other, false));
    OK(thread.calls.create_event(&thread.event));
    OK(thread.calls.create_event(&thread.other_event));
    OK(thread.calls.allocate_now(&memory, 2 * Thread::kBytes));
    thread.device = memory;
}

void tear_down(Thread &thread) {
    OK(thread.calls.destroy_event(thread.event));
    OK(thread.calls.destroy_event(thread.other_event));
    OK(thread.calls.destroy_stream(thread.stream));
    OK(thread.calls.destroy_stream(thread.other));
    OK(thread.calls.free_now(thread.device));
}

int run(const Scenario &scenario, const demo::Options &options) {
    demo::prepare(options);
    const auto calls = options.api == demo::Api::driver ? driver_calls() : runtime_calls();
    const unsigned count = scenario.alone ? 1 : options.threads;
    std::barrier together(static_cast<std::ptrdiff_t>(count));
    {
        std::vector<std::jthread> threads;
        for (unsigned index = 0; index < count; ++index) {
            threads.emplace_back([&, index] {
                Thread thread{*calls, options, index, std::mt19937_64(options.seed * 10007 + index),
                              options.most_iterations.value_or(10)};
                thread.host.resize(Thread::kBytes);
                set_up(thread);
                together.arrive_and_wait();
                scenario.run(thread);
                together.arrive_and_wait();
                tear_down(thread);
            });
        }
    }
    if (options.hold) {
        demo::hold();
    }
    std::printf("%s %s\n", scenario.name, all_as_expected() ? "ok" : "failed");
    return all_as_expected() ? 0 : 1;
}

}  // namespace

Copy Thread::to_device(std::size_t bytes) {
    return {device, host.data(), bytes, standin::kHostToDevice};
}

Copy Thread::to_host(std::size_t bytes) {
    return {host.data(), device, bytes, standin::kDeviceToHost};
}

Copy Thread::on_device(std::size_t bytes) {
    return {static_cast<char *>(device) + kBytes, device, bytes, standin::kDeviceToDevice};
}

void expect(int error, int wanted, const char *what, int line) {
    if (error != wanted) {
        g_failed = true;
        std::fprintf(stderr, "line %d: %s: %d instead of %d\n", line, what, error, wanted);
    }
}

bool all_as_expected() {
    return !g_failed;
}

}  // namespace graphs

int main(int argc, char **argv) {
    const auto scenarios = graphs::all_scenarios();
    if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
        for (const graphs::Scenario &scenario : scenarios) {
            std::printf("%s%s\n", scenario.name, scenario.alone ? " alone" : "");
        }
        return 0;
    }
    sigset_t wake;
    sigemptyset(&wake);
    sigaddset(&wake, SIGUSR1);
    sigprocmask(SIG_BLOCK, &wake, nullptr);
    for (const graphs::Scenario &scenario : scenarios) {
        if (argc > 1 && std::strcmp(scenario.name, argv[1]) == 0) {
            return graphs::run(scenario, demo::parse_options(argc - 1, argv + 1));
        }
    }
    std::fprintf(stderr, "usage: %s SCENARIO [OPTION]...\n       %s --list\n", argv[0], argv[0]);
    return 2;
}

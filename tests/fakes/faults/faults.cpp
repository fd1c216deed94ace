// faults SCENARIO [--wait-for-file PATH]: one fault, then the line "SCENARIO ok".
// faults --list: every scenario, its exit code, and "fragile" for those that return probes break.

#include "faults/scenario.h"
#include "workload/options.h"

#include <atomic>
#include <cstdio>
#include <cstring>

#include <unistd.h>

namespace faults {
namespace {

struct Action {
    const char *function = nullptr;
    void (*run)() = nullptr;
    bool once = false;
};

Action g_action;
std::atomic<bool> g_armed = false;

void act(const char *function, void * /*context*/) {
    if (g_action.function == nullptr || std::strcmp(function, g_action.function) != 0) {
        return;
    }
    if (g_action.once ? g_armed.exchange(false) : g_armed.load()) {
        g_action.run();
    }
}

void arm(const Action &action) {
    g_action = action;
    g_armed = true;
    standin_set_hook(act, nullptr);
}

std::vector<Scenario> all_scenarios() {
    std::vector<Scenario> all;
    for (const auto &group :
         {leaving_scenarios(), nesting_scenarios(), process_scenarios(), thread_scenarios()}) {
        all.insert(all.end(), group.begin(), group.end());
    }
    return all;
}

}  // namespace

void on_next(const char *function, void (*action)()) {
    arm({function, action, true});
}

void on_every(const char *function, void (*action)()) {
    arm({function, action, false});
}

void clear_actions() {
    g_armed = false;
}

bool allocate_and_free(std::size_t bytes) {
    void *memory = nullptr;
    return cudaMalloc(&memory, bytes) == standin::kSuccess && cudaFree(memory) == standin::kSuccess;
}

void announce(const char *scenario) {
    std::printf("%s ok\n", scenario);
    std::fflush(stdout);
}

void execute_self(const char *argument) {
    char path[4096];
    // By its own path: through /proc/self/exe the new image would be named "exe".
    const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size > 0) {
        path[size] = '\0';
        execl(path, path, argument, static_cast<char *>(nullptr));
    }
}

}  // namespace faults

int main(int argc, char **argv) {
    const std::vector<faults::Scenario> scenarios = faults::all_scenarios();
    if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
        for (const faults::Scenario &scenario : scenarios) {
            std::printf("%s %d%s\n", scenario.name, scenario.exit_code,
                        scenario.breaks_under_return_probes ? " fragile" : "");
        }
        return 0;
    }
    const bool waits = argc == 4 && std::strcmp(argv[2], "--wait-for-file") == 0;
    if (argc == 2 || waits) {
        for (const faults::Scenario &scenario : scenarios) {
            if (std::strcmp(scenario.name, argv[1]) != 0) {
                continue;
            }
            if (waits) {
                demo::wait_for_file(argv[3]);
            }
            const bool passed = scenario.run();
            std::printf("%s %s\n", scenario.name, passed ? "ok" : "failed");
            return passed ? scenario.exit_code : 1;
        }
    }
    std::fprintf(stderr, "usage: %s SCENARIO [--wait-for-file PATH]\n       %s --list\n", argv[0],
                 argv[0]);
    return 2;
}

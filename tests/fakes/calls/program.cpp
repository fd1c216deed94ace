// calls [OPTION]...: calls functions of libcalls.so.1, and prints what they counted:
//   truth NAME entered=N returned=N left=N [error:CODE=N]... slow=N slow_at_most=N inner_ns=N
//   outer_ns=N
// one line for each function, with what depends on the time at the end; then "done" or "holding".

#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "calls/count.h"
#include "calls/scenario.h"
#include "workload/options.h"

namespace scenario {

namespace {

constexpr const char *name_table[] = {
#define CALLS_NAME(id, symbol, name, errors, recorded) name,
    CALLS_FUNCTIONS(CALLS_NAME)
#undef CALLS_NAME
};

struct CommandLine {
    Options options;
    std::string scenario = "mix";
    std::string name;
    std::string wait_for_file;
    bool hold = false;
    bool list = false;
};

[[noreturn]] void usage(const char *program) {
    std::fprintf(
        stderr,
        "usage: %s [OPTION]...\n"
        "  --scenario NAME      what to do (mix), or all: every one that ends with 0 and\n"
        "                       survives return probes\n"
        "  --list               the scenarios, their exit codes and a remark\n"
        "  --threads N          threads of mix and mix_with_leaving (1)\n"
        "  --iterations N       iterations of each thread (1000)\n"
        "  --seed X             same seed: same calls\n"
        "  --name COMM          name of the main thread\n"
        "  --until-stopped      mix, mix_with_leaving and dear_and_rare until SIGTERM, whatever\n"
        "                       --iterations says\n"
        "  --wait-for-file PATH make no call before this file exists\n"
        "  --hold               wait for SIGTERM or the end of standard input at the end\n",
        program);
    std::exit(2);
}

bool set_value(CommandLine &line, const std::string &flag, const char *value) {
    if (flag == "--scenario") {
        line.scenario = value;
        return true;
    }
    if (flag == "--name") {
        line.name = value;
        return true;
    }
    if (flag == "--wait-for-file") {
        line.wait_for_file = value;
        return true;
    }
    char *end = nullptr;
    const std::uint64_t number = std::strtoull(value, &end, 10);
    if (end == value || *end != '\0' || *value == '-') {
        return false;
    }
    if (flag == "--threads" && number > 0 && number <= 10000) {
        line.options.threads = static_cast<unsigned>(number);
    } else if (flag == "--iterations") {
        line.options.iterations = number;
    } else if (flag == "--seed") {
        line.options.seed = number;
    } else {
        return false;
    }
    return true;
}

CommandLine parse(int argc, char **argv) {
    CommandLine line;
    for (int at = 1; at < argc; at++) {
        const std::string flag = argv[at];
        if (flag == "--hold") {
            line.hold = true;
        } else if (flag == "--until-stopped") {
            line.options.until_stopped = true;
        } else if (flag == "--list") {
            line.list = true;
        } else if (at + 1 == argc || !set_value(line, flag, argv[++at])) {
            usage(argv[0]);
        }
    }
    return line;
}

void print(const char *name, const count &count) {
    const auto load = [](const std::uint64_t &value) {
        return static_cast<unsigned long long>(__atomic_load_n(&value, __ATOMIC_RELAXED));
    };
    const auto entered = load(count.entered);
    const auto returned = load(count.returned);
    std::printf("truth %s entered=%llu returned=%llu left=%llu", name, entered, returned,
                entered - returned);
    std::map<std::int64_t, std::uint64_t> errors;  // in order, other than they came in
    for (const count_code &code : count.codes) {
        errors[code.code] += code.count;
    }
    errors.erase(0);
    for (const auto &[code, number] : errors) {
        std::printf(" error:%lld=%llu", static_cast<long long>(code), load(number));
    }
    std::printf(" slow=%llu slow_at_most=%llu inner_ns=%llu outer_ns=%llu\n", load(count.slow),
                load(count.slow_at_most), load(count.inner_ns), load(count.outer_ns));
}

bool run_one(const Scenario &scenario, const Options &options) {
    const bool passed = scenario.run(options);
    std::printf("%s %s\n", scenario.name, passed ? "ok" : "failed");
    return passed;
}

// Returns the exit code.
int run(const CommandLine &line, const char *program) {
    bool found = false;
    bool passed = true;
    int exit_code = 0;
    for (const Scenario &scenario : all_scenarios()) {
        const bool all =
            line.scenario == "all" && scenario.exit_code == 0 && *scenario.remark == '\0';
        if (all || line.scenario == scenario.name) {
            found = true;
            passed = run_one(scenario, line.options) && passed;
            exit_code = scenario.exit_code;
        }
    }
    if (!found) {
        usage(program);
    }
    return passed ? exit_code : 1;
}

int list() {
    for (const Scenario &scenario : all_scenarios()) {
        std::printf("%s %d %s\n", scenario.name, scenario.exit_code, scenario.remark);
    }
    return 0;
}

}  // namespace

void print_truth() {
    for (int function = 0; function < CALLS_FUNCTION_COUNT; function++) {
        print(name_table[function], *count_of(static_cast<calls_function>(function)));
    }
    std::fflush(stdout);
}

void announce(const char *scenario) {
    std::printf("%s ok\n", scenario);
    print_truth();
}

}  // namespace scenario

int main(int argc, char **argv) {
    const scenario::CommandLine line = scenario::parse(argc, argv);
    if (line.list) {
        return scenario::list();
    }
    if (!line.name.empty()) {
        prctl(PR_SET_NAME, line.name.c_str());
    }
    demo::watch_stop_signals();
    demo::wait_for_file(line.wait_for_file);
    const int code = scenario::run(line, argv[0]);
    scenario::print_truth();
    if (line.hold) {
        demo::hold();
    } else {
        std::puts("done");
    }
    return code;
}

// Measures the time that tracing adds to a call. Functions that do nothing are called untraced,
// with empty programs at both ends, with ours, and with other tools' programs. The ways take turns,
// so that other load on the machine affects all of them. Prints tables, and which bars of the
// design are met.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include "bench/call_cost/report.h"
#include "bench/call_cost/ways.h"
#include "bench/call_cost/workloads.h"
#include "exporter/ebpf/libbpf.h"

using namespace gpusnoop;
using namespace gpusnoop::bench;

namespace {

const std::vector<std::string> &all_variants() {
    static const std::vector<std::string> names = {
        "int3",
#ifdef __x86_64__
        "nop5",
#endif
    };
    return names;
}

// Most of a round is the start of other tools, and the kernel's detaching of perf probes.
struct Options {
    std::vector<std::string> variants = all_variants();
    unsigned rounds = 5;
    unsigned calls = 20'000;
    bool quick = false;
    std::filesystem::path json;
};

// For a test: the figures are then not precise.
constexpr unsigned quick_rounds = 1;
constexpr unsigned quick_calls = 1'000;

Result<Libraries> open_libraries(const std::string &variant) {
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    const auto open = [&](const char *layers) {
        return Library::open(folder / ("libbench_" + variant + "_" + layers + ".so"));
    };
    auto both = open("both");
    auto runtime = open("runtime");
    auto driver = open("driver");
    for (const auto *library : {&both, &runtime, &driver}) {
        if (!*library) {
            return tl::unexpected(library->error());
        }
    }
    return Libraries{std::move(*both), std::move(*runtime), std::move(*driver)};
}

struct Seen {
    std::uint64_t lost = 0;
    std::string entry;  // the functions' first instruction while traced
};

// One way's turn with all workloads.
Result<> take_turn(const std::vector<Workload> &workloads, const std::vector<Way> &ways,
                   std::size_t way, unsigned calls, Costs &costs, Seen &seen) {
    const auto tracing = ways[way].begin();
    if (!tracing) {
        return fail_in(ways[way].name, tracing.error());
    }
    const Library &library = *ways[way].library;
    for (std::size_t workload = 0; workload < workloads.size(); workload++) {
        if (ways[way].concerns(workloads[workload])) {
            costs.add(workload, way,
                      nanoseconds_per_call(workloads[workload], library.functions(), calls));
        }
    }
    if (*tracing == nullptr) {
        return {};
    }
    seen.entry = library.entry_now();
    const auto lost = (*tracing)->lost();
    if (!lost) {
        return fail_in(ways[way].name, lost.error());
    }
    seen.lost += *lost;
    return {};
}

Result<> measure(const std::string &variant, Which which, unsigned rounds, unsigned calls,
                 Results &results) {
    const auto libraries = open_libraries(variant);
    if (!libraries) {
        return tl::unexpected(libraries.error());
    }
    const auto workloads = all_workloads();
    const auto ways = ways_to_trace(*libraries, which);
    Costs costs(workloads, ways);
    Seen seen;
    for (unsigned round = 0; round < rounds; round++) {
        for (std::size_t i = 0; i < ways.size(); i++) {
            // Each round begins with another way, so that no way always follows the same one.
            const std::size_t way = (i + round) % ways.size();
            if (auto turn = take_turn(workloads, ways, way, calls, costs, seen); !turn) {
                return turn;
            }
        }
    }
    std::string how = fmt::format(
        "Functions that do nothing are called {} times in each of {} rounds, in which all ways to "
        "trace them take turns; "
        "medians. While traced they begin with: {}.",
        calls, rounds, seen.entry);
    if (seen.lost != 0) {
        how += fmt::format(" {} events were lost: the figures are of a ring that was full.",
                           seen.lost);
    }
    costs.report(variant, how, results);
    return {};
}

Result<> run(const Options &options) {
    Results results;
    const unsigned rounds = options.quick ? quick_rounds : options.rounds;
    const unsigned calls = options.quick ? quick_calls : options.calls;
    for (const std::string &variant : all_variants()) {
        if (std::ranges::find(options.variants, variant) == options.variants.end()) {
            continue;
        }
        // A test runs other tools, and ways that detach slowly, only once.
        const bool all = !options.quick || variant == all_variants().back();
        const Which which = all ? Which::all : Which::sessions;
        if (auto measured = measure(variant, which, rounds, calls, results); !measured) {
            return measured;
        }
    }
    print(results);
    return write_json(results, options.json);
}

}  // namespace

int main(int argc, char **argv) {
    Options options;
    CLI::App cli("Prints what tracing adds to a call of a CUDA function. Run it as root.");
    cli.add_option("variant", options.variants,
                   "what traced functions begin with: int3 (code that a probe replaces by a trap), "
                   "nop5 (a nop that newer kernels replace by a call); both by default")
        ->check(CLI::IsMember(all_variants()));
    cli.add_option("--rounds", options.rounds, "turns of each way to trace")
        ->check(CLI::Range(1U, 10'000U))
        ->capture_default_str();
    cli.add_option("--calls", options.calls, "timed calls of each function in a turn")
        ->check(CLI::Range(10U, 100'000'000U))
        ->capture_default_str();
    cli.add_flag("--quick", options.quick, "one round of a few calls, for a test");
    cli.add_option("--json", options.json, "where to write the tables, for bench/run.py");
    try {
        cli.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        return cli.exit(error) == 0 ? 0 : 1;
    }
    ebpf::route_libbpf_messages();
    if (const auto done = run(options); !done) {
        std::fprintf(stderr, "call_cost: %s\n", done.error().message.c_str());
        return 1;
    }
    return 0;
}

// Measures the time that tracing adds to a call. Functions that do nothing are called untraced,
// with empty programs at both ends, with ours, and with other tools' programs. Each way traces a
// copy of the library of its own, so all are in force at once and take turns within milliseconds: a
// virtual machine's speed can change by a third from one second to the next, and so affects all
// ways of a round alike. Prints tables, and which bars of the design are met.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

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

struct Options {
    std::vector<std::string> variants = all_variants();
    unsigned rounds = 1'000;
    unsigned calls = 100;
    bool quick = false;
    std::filesystem::path json;
};

// For a test: the figures are then not precise.
constexpr unsigned quick_rounds = 20;

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

// A folder for copies of libraries, which is removed at the end.
class Folder {
public:
    Folder() : path_(std::filesystem::temp_directory_path() / "call_cost.XXXXXX") {
        std::string path = path_.string();
        path_ = ::mkdtemp(path.data()) == nullptr ? "" : path;
    }
    ~Folder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    [[nodiscard]] const std::filesystem::path &path() const { return path_; }

private:
    std::filesystem::path path_;  // empty: it could not be made
};

// A way in force, on a copy of its library.
struct InForce {
    Library library;
    std::unique_ptr<Tracing> tracing;
};

Result<InForce> begin(const Way &way, const std::filesystem::path &folder) {
    auto copy = way.library->copy_to(folder);
    if (!copy) {
        return tl::unexpected(copy.error());
    }
    InForce started{std::move(*copy), nullptr};
    auto tracing = way.begin(started.library);
    if (!tracing) {
        return fail_in(way.name, tracing.error());
    }
    started.tracing = std::move(*tracing);
    return started;
}

Result<std::vector<InForce>> begin_all(const std::vector<Way> &ways, const Folder &folder) {
    if (folder.path().empty()) {
        return fail_errno("make a folder for copies of libraries");
    }
    std::vector<InForce> all;
    for (const Way &way : ways) {
        auto started = begin(way, folder.path() / std::to_string(all.size()));
        if (!started) {
            return tl::unexpected(started.error());
        }
        all.push_back(std::move(*started));
    }
    return all;
}

Result<std::uint64_t> lost_by(const std::vector<Way> &ways, const std::vector<InForce> &in_force) {
    std::uint64_t sum = 0;
    for (std::size_t way = 0; way < ways.size(); way++) {
        if (in_force[way].tracing == nullptr) {
            continue;
        }
        const auto lost = in_force[way].tracing->lost();
        if (!lost) {
            return fail_in(ways[way].name, lost.error());
        }
        sum += *lost;
    }
    return sum;
}

// All ways call one function after the other. Each round begins with another way, so that no way
// always follows the same one.
void take_turns(const std::vector<Workload> &workloads, const std::vector<Way> &ways,
                const std::vector<InForce> &in_force, unsigned round, unsigned calls,
                Costs &costs) {
    for (std::size_t workload = 0; workload < workloads.size(); workload++) {
        for (std::size_t i = 0; i < ways.size(); i++) {
            const std::size_t way = (i + round) % ways.size();
            if (ways[way].concerns(workloads[workload])) {
                costs.add(workload, way,
                          nanoseconds_per_call(workloads[workload],
                                               in_force[way].library.functions(), calls));
            }
        }
    }
}

Result<> measure(const std::string &variant, Which which, unsigned rounds, unsigned calls,
                 Results &results) {
    const auto libraries = open_libraries(variant);
    if (!libraries) {
        return tl::unexpected(libraries.error());
    }
    const auto workloads = all_workloads();
    const auto ways = ways_to_trace(*libraries, which);
    const Folder folder;
    const auto in_force = begin_all(ways, folder);
    if (!in_force) {
        return tl::unexpected(in_force.error());
    }
    Costs costs(workloads, ways);
    for (unsigned round = 0; round < rounds; round++) {
        take_turns(workloads, ways, *in_force, round, calls, costs);
    }
    const auto lost = lost_by(ways, *in_force);
    if (!lost) {
        return tl::unexpected(lost.error());
    }
    std::string how = fmt::format(
        "Empty functions are called {} times in each of {} rounds; all ways to trace them take "
        "turns, each with its own copy of the library. Medians. Instruction at the entry while "
        "traced: {}. \"Least record\" programs only find the thread's state, read the clock at "
        "entry and return, and send a record of the outermost call; for an allocation of the probe "
        "cuda, with its stack and address. A probe with exact records cannot do less.",
        calls, rounds, in_force->back().library.entry_now());
    if (*lost != 0) {
        how += fmt::format(
            " {} events were lost because the ring was full: these figures are not valid.", *lost);
    }
    costs.report(variant, how, results);
    return {};
}

Result<> run(const Options &options) {
    Results results;
    const unsigned rounds = options.quick ? quick_rounds : options.rounds;
    for (const std::string &variant : all_variants()) {
        if (std::ranges::find(options.variants, variant) == options.variants.end()) {
            continue;
        }
        // A test runs other tools, and ways that detach slowly, only once.
        const bool all = !options.quick || variant == all_variants().back();
        const Which which = all ? Which::all : Which::sessions;
        if (auto measured = measure(variant, which, rounds, options.calls, results); !measured) {
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
    cli.add_flag("--quick", options.quick, "a few rounds, for a test");
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

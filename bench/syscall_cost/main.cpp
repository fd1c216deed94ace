// Measures the time that the syscall probe adds to a system call: getppid, which does almost
// nothing. It runs without a probe on the machine, with empty programs at both ends, and with our
// programs in a process that is no target and in one that is. They take turns, so that other load
// on the machine affects all of them. Prints a table, without a verdict.

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "bench/results/results.h"
#include "bench/results/statistics.h"
#include "bpf/cuda/cuda.h"
#include "bpf/lib/processes/process.h"
#include "bpf/lib/processes/target.h"
#include "empty_syscall.skel.h"
#include "exporter/base/fd.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/processes/traced_processes.h"
#include "exporter/probes/syscall/probe.h"
#include "exporter/probes/syscall/settings.h"
#include "exporter/system/machine.h"

using namespace gpusnoop;
using namespace gpusnoop::bench;

namespace {

struct Empty {
    ebpf::Skeleton<empty_syscall_bpf> skeleton;
    std::array<ebpf::Link, 2> links;
};

struct Ours {
    probes::TracedProcessesPtr traced;
    std::unique_ptr<probes::Probe> probe;
};

using Tracing = std::variant<std::monostate, Empty, Ours>;

enum class Way { nothing, empty, others, traced };
constexpr std::array names = {"no probe", "empty programs", "process not traced", "traced"};

[[noreturn]] void give_up(const Error &error) {
    std::fprintf(stderr, "syscall_cost: %s\n", error.message.c_str());
    std::exit(1);
}

Tracing trace(Way way) {
    if (way == Way::nothing) {
        return {};
    }
    if (way == Way::empty) {
        Empty empty;
        empty.skeleton.reset(empty_syscall_bpf::open_and_load());
        if (empty.skeleton) {
            empty.links[0].reset(bpf_program__attach(empty.skeleton->progs.empty_sys_leave));
            empty.links[1].reset(bpf_program__attach(empty.skeleton->progs.empty_sys_enter));
        }
        if (!empty.links[1]) {
            give_up({"cannot attach the empty programs"});
        }
        return empty;
    }
    Ours ours;
    probes::TargetsConfig targets;
    targets.all_processes = way == Way::traced;
    ours.traced = std::make_shared<probes::TracedProcesses>(targets, std::chrono::seconds(30));
    // The CUDA probe's maps, as on a node without GPU processes.
    Fd table(::bpf_map_create(BPF_MAP_TYPE_HASH, "processes", sizeof(std::uint32_t),
                              sizeof(cuda_live_process), TARGET_MAX_PROCESSES, nullptr));
    Fd filter(::bpf_map_create(BPF_MAP_TYPE_ARRAY, "filter", sizeof(std::uint32_t),
                               sizeof(std::uint64_t), PROCESS_FILTER_WORDS, nullptr));
    if (!table || !filter) {
        give_up({"cannot make the table of processes"});
    }
    ours.traced->cuda().gpu_processes = {.processes = std::move(table),
                                         .filter = std::move(filter)};
    config::Config config;
    probes::SyscallConfig settings;
    settings.enabled = true;
    config.set(settings);
    ours.probe = probes::syscall_kind.make(config, {}, {.traced = ours.traced, .sinks = nullptr});
    if (const auto started = ours.probe->start(); !started) {
        give_up(started.error());
    }
    return ours;
}

// Nanoseconds of CPU time a call, in the slowest thread.
double turn(Way way, unsigned calls, unsigned threads, std::uint64_t &lost) {
    const Tracing tracing = trace(way);
    std::vector<double> took(threads);
    {
        std::vector<std::jthread> running;
        for (double &one : took) {
            running.emplace_back([&one, calls] {
                const auto began = now_on(CLOCK_THREAD_CPUTIME_ID);
                for (unsigned i = 0; i < calls; i++) {
                    ::syscall(SYS_getppid);
                }
                const auto ended = now_on(CLOCK_THREAD_CPUTIME_ID);
                one = static_cast<double>((ended - began).count()) / calls;
            });
        }
    }
    if (const auto *ours = std::get_if<Ours>(&tracing)) {
        lost += ebpf::lost_calls(ours->probe->health().account);
    }
    return *std::ranges::max_element(took);
}

// The time that a way adds to the empty programs' time, by round.
std::vector<double> to_empty(const std::array<std::vector<double>, names.size()> &figures,
                             std::size_t way) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < figures[0].size(); round++) {
        const double nothing = figures[0][round];
        ratios.push_back((figures[way][round] - nothing) / (figures[1][round] - nothing));
    }
    return ratios;
}

using Figures = std::array<std::vector<double>, names.size()>;

struct Options {
    unsigned rounds = 11;
    unsigned calls = 300'000;
    unsigned threads = 1;
    bool quick = false;
    std::filesystem::path json;
};

Table table_of(const Figures &figures, const Options &options, std::uint64_t lost) {
    Table table{"Cost of a system call",
                fmt::format("getppid, {} calls in {} threads in each of {} rounds; the "
                            "alternatives take turns. CPU time per call, medians. {} calls were "
                            "lost.",
                            options.calls, options.threads, options.rounds, lost),
                {"", "ns per call", "added ns", "added, over empty programs"}};
    const double nothing = median(figures[0]);
    for (std::size_t way = 0; way < names.size(); way++) {
        const double all = median(figures[way]);
        table.rows.push_back({names[way], fmt::format("{:.0f}", all),
                              way == 0 ? "" : fmt::format("{:.0f}", all - nothing),
                              way < 2 ? "" : ratio_text(to_empty(figures, way))});
    }
    return table;
}

}  // namespace

int main(int argc, char **argv) {
    Options options;
    CLI::App cli("Prints what the syscall probe adds to a system call. Run it as root.");
    cli.add_option("rounds", options.rounds)->check(CLI::Range(1U, 10'000U))->capture_default_str();
    cli.add_option("calls", options.calls, "of a thread in a round")
        ->check(CLI::Range(1U, 1'000'000'000U))
        ->capture_default_str();
    cli.add_option("threads", options.threads)
        ->check(CLI::Range(1U, 1'000U))
        ->capture_default_str();
    cli.add_flag("--quick", options.quick, "few calls, for a test");
    cli.add_option("--json", options.json, "where to write the table, for bench/run.py");
    try {
        cli.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        return cli.exit(error) == 0 ? 0 : 1;
    }
    if (options.quick) {
        options.rounds = 2;
        options.calls = 10'000;
    }
    ebpf::route_libbpf_messages();
    Figures figures;
    std::uint64_t lost = 0;
    for (unsigned round = 0; round < options.rounds; round++) {
        for (std::size_t way = 0; way < names.size(); way++) {
            figures[way].push_back(
                turn(static_cast<Way>(way), options.calls, options.threads, lost));
        }
    }
    const Results results{{table_of(figures, options, lost)}, {}};
    print(results);
    if (const auto written = write_json(results, options.json); !written) {
        give_up(written.error());
    }
    return 0;
}

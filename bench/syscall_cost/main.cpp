// What the syscall probe adds to a system call: getppid, which does next to nothing, with no probe
// on the machine, with empty programs at both ends, with ours in a process that is none to trace,
// and in one that is, in turns, so that what the machine does meanwhile meets all of them. Prints a
// table; it has no opinion.
//
//   syscall_cost [ROUNDS [CALLS [THREADS]]]

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "bpf/cuda.h"
#include "bpf/lib/process_filter.h"
#include "bpf/lib/target.h"
#include "empty_syscall.skel.h"
#include "exporter/base/fd.h"
#include "exporter/base/machine.h"
#include "exporter/kernel/account.h"
#include "exporter/kernel/libbpf.h"
#include "exporter/kernel/link.h"
#include "exporter/kernel/skeleton.h"
#include "exporter/probes/syscall_programs.h"
#include "exporter/probes/targets.h"

using namespace gpusnoop;

namespace {

struct Empty {
    kernel::Skeleton<empty_syscall_bpf> skeleton;
    std::array<kernel::Link, 2> links;
};

struct Ours {
    std::unique_ptr<probes::Targets> targets;
    std::unique_ptr<probes::SyscallPrograms> programs;
};

using Tracing = std::variant<std::monostate, Empty, Ours>;

enum class Way { nothing, empty, others, traced };
constexpr std::array names = {"no probe", "empty programs", "not one to trace", "traced"};

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
            empty.links[0].reset(bpf_program__attach(empty.skeleton->progs.leave));
            empty.links[1].reset(bpf_program__attach(empty.skeleton->progs.enter));
        }
        if (!empty.links[1]) {
            give_up({"cannot attach the empty programs"});
        }
        return empty;
    }
    Ours ours;
    config::Config::Targets targets;
    targets.everything = way == Way::traced;
    ours.targets = std::make_unique<probes::Targets>(targets, std::chrono::seconds(30));
    // As the CUDA probe has them, on a node without GPU processes.
    const Fd table(::bpf_map_create(BPF_MAP_TYPE_HASH, "processes", sizeof(std::uint32_t),
                                    sizeof(cuda_live_process), TARGET_MAX_PROCESSES, nullptr));
    const Fd filter(::bpf_map_create(BPF_MAP_TYPE_ARRAY, "filter", sizeof(std::uint32_t),
                                     sizeof(std::uint64_t), PROCESS_FILTER_WORDS, nullptr));
    if (!ours.targets->share_gpu_processes(table.get(), filter.get())) {
        give_up({"cannot share the table of processes"});
    }
    auto programs = probes::SyscallPrograms::load({}, *ours.targets);
    if (!programs) {
        give_up(programs.error());
    }
    ours.programs = std::move(*programs);
    return ours;
}

// Nanoseconds of CPU time a call, of the slowest thread.
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
        if (const auto account = kernel::read_account(ours->programs->account_map())) {
            for (const std::uint64_t count : account->lost) {
                lost += count;
            }
        }
    }
    return *std::ranges::max_element(took);
}

double quantile(std::vector<double> values, double part) {
    std::ranges::sort(values);
    return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

double median(const std::vector<double> &values) {
    return quantile(values, 0.5);
}

// What a way adds over what the empty programs add, in each round.
std::vector<double> to_empty(const std::array<std::vector<double>, names.size()> &figures,
                             std::size_t way) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < figures[0].size(); round++) {
        const double nothing = figures[0][round];
        ratios.push_back((figures[way][round] - nothing) / (figures[1][round] - nothing));
    }
    return ratios;
}

unsigned number(int argc, char **argv, int index, unsigned otherwise) {
    return argc > index ? static_cast<unsigned>(std::max(1L, std::strtol(argv[index], nullptr, 10)))
                        : otherwise;
}

}  // namespace

int main(int argc, char **argv) {
    kernel::route_libbpf_messages();
    const unsigned rounds = number(argc, argv, 1, 11);
    const unsigned calls = number(argc, argv, 2, 300'000);
    const unsigned threads = number(argc, argv, 3, 1);
    std::array<std::vector<double>, names.size()> figures;
    std::uint64_t lost = 0;
    for (unsigned round = 0; round < rounds; round++) {
        for (std::size_t way = 0; way < names.size(); way++) {
            figures[way].push_back(turn(static_cast<Way>(way), calls, threads, lost));
        }
    }
    const double nothing = median(figures[0]);
    std::printf("%u rounds of %u calls in %u threads, medians\n\n", rounds, calls, threads);
    std::printf("%-18s %10s %10s   %s\n", "", "ns a call", "added",
                "to empty programs (10th to 90th of 100 rounds)");
    for (std::size_t way = 0; way < names.size(); way++) {
        const double all = median(figures[way]);
        std::printf("%-18s %10.0f %10.0f", names[way], all, all - nothing);
        if (way > 1) {
            const std::vector<double> ratios = to_empty(figures, way);
            std::printf("   %.2fx (%.2f to %.2f)", median(ratios), quantile(ratios, 0.1),
                        quantile(ratios, 0.9));
        }
        std::printf("\n");
    }
    std::printf("\n%llu calls lost\n", static_cast<unsigned long long>(lost));
    return 0;
}

#include "exporter/ebpf/calibration.h"

#include <bpf/libbpf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "bpf/calibration.h"
#include "calibration.skel.h"
#include "exporter/base/fd.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/object.h"
#include "exporter/ebpf/own_code.h"
#include "exporter/ebpf/skeleton.h"
#include "exporter/system/machine.h"

// Three functions to attach to, which nothing else calls. Two begin with an instruction that the
// kernel emulates, as symbols::find_entry_probes() looks for one; the last with one that it steps
// over. On arm64 it steps over the first instruction of most functions.
#if defined(__x86_64__)
#define CHEAP_CODE "push %rbp\n pop %rbp\n ret\n"
#define STEPPED_CODE "mov %rdi, %rax\n ret\n"
#else
#define CHEAP_CODE "stp x29, x30, [sp, #-16]!\n ldp x29, x30, [sp], #16\n ret\n"
#define STEPPED_CODE CHEAP_CODE
#endif
#define CALIBRATED(name, code)                                                        \
    asm(".pushsection .text\n .p2align 4\n"                                           \
        ".globl " #name "\n .hidden " #name                                           \
        "\n"                                                                          \
        ".type " #name ", %function\n" #name ":\n" code ".size " #name ", . - " #name \
        "\n .popsection\n");                                                          \
    extern "C" void name()

CALIBRATED(gpusnoop_calibrated_call, CHEAP_CODE);
CALIBRATED(gpusnoop_calibrated_entry, CHEAP_CODE);
CALIBRATED(gpusnoop_calibrated_stepped_entry, STEPPED_CODE);

namespace gpusnoop::ebpf {

namespace {

using Function = void (*)();
using std::chrono::nanoseconds;

constexpr unsigned calls_a_batch = 32;
constexpr std::size_t most_batches = 31;
constexpr nanoseconds longest = std::chrono::milliseconds(6);  // for one of five costs

// Of this thread's CPU time: another program may have the CPU in between.
double nanoseconds_a_call(Function function) {
    const nanoseconds began = now_on(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < calls_a_batch; i++) {
        function();
    }
    return static_cast<double>((now_on(CLOCK_THREAD_CPUTIME_ID) - began).count()) / calls_a_batch;
}

// Of each batch. The first, which meets cold caches, does not count.
std::vector<double> measure(Function function) {
    std::vector<double> batches;
    (void)nanoseconds_a_call(function);
    const nanoseconds until = now_on(CLOCK_MONOTONIC) + longest;
    do {
        batches.push_back(nanoseconds_a_call(function));
    } while (batches.size() < most_batches && now_on(CLOCK_MONOTONIC) < until);
    return batches;
}

struct Attached {
    Skeleton<calibration_bpf> programs;
    UprobeSet probes;  // detached before the programs go

    [[nodiscard]] std::uint32_t cost_of(Function function, calibrated_work work,
                                        double without) const {
        programs.get()->bss->work = work;
        return ebpf::cost_of(measure(function), without);
    }
};

// Without `sees_returns`, the ends of calls are seen at no function.
Result<std::unique_ptr<Attached>> attach(AttachMode mode, bool sees_returns) {
    auto attached = std::make_unique<Attached>();
    attached->programs.reset(calibration_bpf::open());
    if (!attached->programs) {
        return fail_errno("open the BPF programs");
    }
    const CallPrograms calls = choose_call_programs(attached->programs->obj, mode, false);
    if (const int error = calibration_bpf::load(attached->programs.get()); error != 0) {
        return fail_errno("load the BPF programs (" + std::string(to_string(mode)) + ")", -error);
    }
    const Fd exe(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    if (!exe) {
        return fail_errno("open the exporter's own file");
    }
    std::vector<AttachPoint> points;
    const std::pair<Function, bool> functions[] = {{gpusnoop_calibrated_call, !sees_returns},
                                                   {gpusnoop_calibrated_entry, true},
                                                   {gpusnoop_calibrated_stepped_entry, true}};
    for (const auto &[function, entry_only] : functions) {
        points.push_back({.file_offset = file_offset(reinterpret_cast<std::uintptr_t>(function)),
                          .cookie = entry_only ? CALIBRATION_ENTRY_ONLY : 0,
                          .entry_only = entry_only});
    }
    auto probes = UprobeSet::attach(calls, exe.get(), points);
    if (!probes) {
        return tl::unexpected(probes.error());
    }
    attached->probes = std::move(*probes);
    if (attached->probes.functions() != points.size()) {
        return fail("the kernel allows no probe on the exporter's own functions");
    }
    return attached;
}

probe_costs costs_of(const Attached &attached, double without) {
    constexpr auto less = [](std::uint32_t all, std::uint32_t part) {
        return all > part ? all - part : 0;
    };
    const auto cost = [&](Function function, calibrated_work work) {
        return attached.cost_of(function, work, without);
    };
    probe_costs costs{};
    costs.entry = cost(gpusnoop_calibrated_entry, CALIBRATED_NOTHING);
    costs.stepped_entry = cost(gpusnoop_calibrated_stepped_entry, CALIBRATED_NOTHING);
    const std::uint32_t call = cost(gpusnoop_calibrated_call, CALIBRATED_NOTHING);
    costs.ending = less(call, costs.entry);
    const std::uint32_t recorded = cost(gpusnoop_calibrated_call, CALIBRATED_RECORD);
    costs.record = less(recorded, call);
    costs.stack = less(cost(gpusnoop_calibrated_call, CALIBRATED_STACK), recorded);
    return costs;
}

}  // namespace

std::uint32_t cost_of(std::vector<double> with_probe, double without) {
    const auto middle = with_probe.begin() + static_cast<std::ptrdiff_t>(with_probe.size() / 2);
    std::ranges::nth_element(with_probe, middle);
    return static_cast<std::uint32_t>(std::llround(std::max(0.0, *middle - without)));
}

Calibration::Calibration(std::span<const AttachMode> modes, const Features &features) {
    const double without = cost_of(measure(gpusnoop_calibrated_call), 0);
    std::vector<std::unique_ptr<Attached>> done;
    for (const AttachMode mode : modes) {
        auto attached = attach(mode, features.has_harmless_return_probes());
        if (!attached) {
            log::warn(
                "cannot measure what probes cost, so gpusnoop_overhead_seconds_total is missing: "
                "gpusnoop_exporter doctor shows what the exporter lacks",
                {{"mode", to_string(mode)}, {"reason", attached.error().message}});
            continue;
        }
        costs_.emplace(mode, costs_of(**attached, without));
        done.push_back(std::move(*attached));
    }
    detaching_ = std::jthread([done = std::move(done)]() mutable { done.clear(); });
}

}  // namespace gpusnoop::ebpf

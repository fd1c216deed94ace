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
constexpr std::size_t most_rounds = 31;
constexpr nanoseconds longest = std::chrono::milliseconds(30);  // of all rounds

// Of this thread's CPU time: another program may have the CPU in between.
double nanoseconds_a_call(Function function) {
    const nanoseconds began = now_on(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < calls_a_batch; i++) {
        function();
    }
    return static_cast<double>((now_on(CLOCK_THREAD_CPUTIME_ID) - began).count()) / calls_a_batch;
}

struct Attached {
    Skeleton<calibration_bpf> programs;
    UprobeSet probes;  // detached before the programs go

    [[nodiscard]] double batch(Function function, calibrated_work work) const {
        programs.get()->bss->work = work;
        return nanoseconds_a_call(function);
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

// The parts take turns, so that what else the machine does affects all of them.
probe_costs costs_of(const Attached &attached, double without, const std::stop_token &stop) {
    std::vector<double> entry, stepped_entry, ending, record, stack;
    const nanoseconds until = now_on(CLOCK_MONOTONIC) + longest;
    for (std::size_t round = 0; round <= most_rounds; round++) {
        const double one = attached.batch(gpusnoop_calibrated_entry, CALIBRATED_NESTED);
        const double stepped = attached.batch(gpusnoop_calibrated_stepped_entry, CALIBRATED_NESTED);
        const double both = attached.batch(gpusnoop_calibrated_call, CALIBRATED_NESTED);
        const double recorded = attached.batch(gpusnoop_calibrated_call, CALIBRATED_RECORD);
        const double with_stack = attached.batch(gpusnoop_calibrated_call, CALIBRATED_STACK);
        if (round == 0) {
            continue;  // caches were cold
        }
        entry.push_back(one - without);
        stepped_entry.push_back(stepped - without);
        ending.push_back(both - one);
        record.push_back(recorded - both);
        stack.push_back(with_stack - recorded);
        if (now_on(CLOCK_MONOTONIC) > until || stop.stop_requested()) {
            break;
        }
    }
    return {.entry = cost_of(std::move(entry)),
            .stepped_entry = cost_of(std::move(stepped_entry)),
            .ending = cost_of(std::move(ending)),
            .record = cost_of(std::move(record)),
            .stack = cost_of(std::move(stack))};
}

// Before anything is attached to the functions.
double cost_untraced() {
    std::vector<double> batches;
    for (std::size_t round = 0; round < most_rounds; round++) {
        batches.push_back(nanoseconds_a_call(gpusnoop_calibrated_call));
    }
    return cost_of(std::move(batches));
}

}  // namespace

std::uint32_t cost_of(std::vector<double> batches) {
    const auto middle = batches.begin() + static_cast<std::ptrdiff_t>(batches.size() / 2);
    std::ranges::nth_element(batches, middle);
    return static_cast<std::uint32_t>(std::llround(std::max(0.0, *middle)));
}

Calibration::Calibration(std::vector<AttachMode> modes, bool sees_returns,
                         std::function<void(const ProbeCosts &)> on_measured)
    : modes_(std::move(modes)),
      sees_returns_(sees_returns),
      on_measured_(std::move(on_measured)),
      thread_([this](const std::stop_token &stop) { run(stop); }) {}

std::optional<Calibration::Measured> Calibration::measured() const {
    const std::lock_guard lock(mutex_);
    return measured_;
}

void Calibration::run(const std::stop_token &stop) {
    Measured measured;
    const double without = cost_untraced();
    std::vector<std::unique_ptr<Attached>> done;  // detached last, which takes the longest
    for (const AttachMode mode : modes_) {
        if (stop.stop_requested()) {
            return;
        }
        auto attached = attach(mode, sees_returns_);
        if (!attached) {
            log::warn(
                "cannot measure what probes cost, so gpusnoop_overhead_seconds_total is missing: "
                "gpusnoop_exporter doctor shows what the exporter lacks",
                {{"mode", to_string(mode)}, {"reason", attached.error().message}});
            measured.feature.available = false;
            measured.feature.reason = attached.error().message;
            continue;
        }
        measured.costs.emplace(mode, costs_of(**attached, without, stop));
        done.push_back(std::move(*attached));
    }
    on_measured_(measured.costs);
    const std::lock_guard lock(mutex_);
    measured_ = std::move(measured);
}

}  // namespace gpusnoop::ebpf

#include "exporter/ebpf/calibration.h"

#include <bpf/libbpf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "bpf/calibration.h"
#include "calibration.skel.h"
#include "exporter/base/fd.h"
#include "exporter/base/log.h"
#include "exporter/base/read_file.h"
#include "exporter/ebpf/nothing.h"
#include "exporter/ebpf/object.h"
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

std::optional<CpuTimes> cpu_times_in(std::string_view stat) {
    constexpr std::string_view begin = "cpu ";
    if (!stat.starts_with(begin)) {
        return std::nullopt;
    }
    stat = stat.substr(begin.size(), stat.find('\n') - begin.size());
    CpuTimes times;
    // As in proc_stat(5), up to what is stolen: guests are in the times of users.
    for (int field = 0; field < 8; field++) {
        stat.remove_prefix(std::min(stat.find_first_not_of(' '), stat.size()));
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(stat.data(), stat.data() + stat.size(), value);
        if (error != std::errc{}) {
            return std::nullopt;
        }
        stat.remove_prefix(static_cast<std::size_t>(end - stat.data()));
        times.all += value;
        if (field == 3 || field == 4) {  // idle, and idle while a disk is waited for
            times.idle += value;
        }
    }
    return times;
}

bool CalibrationSchedule::is_due(std::chrono::nanoseconds now, CpuTimes times) {
    const CpuTimes before = times_;
    times_ = times;
    if (times.all <= before.all || times.idle < before.idle) {
        return false;
    }
    const double idle =
        static_cast<double>(times.idle - before.idle) / static_cast<double>(times.all - before.all);
    if (is_done() || now - measured_at_ < least_interval || idle < calmest_ + calmer_by) {
        return false;
    }
    measured_at_ = now;
    calmest_ = idle;
    return true;
}

namespace {

using Function = void (*)();
using std::chrono::nanoseconds;

constexpr unsigned calls_a_batch = 32;
constexpr std::size_t most_rounds = 31;
constexpr nanoseconds longest = std::chrono::milliseconds(30);  // of CPU time, of all rounds

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
    auto probes = UprobeSet::attach(calls, {exe.get()}, points);
    if (!probes) {
        return tl::unexpected(probes.error());
    }
    attached->probes = std::move(*probes);
    if (attached->probes.functions() != points.size()) {
        return fail("the kernel allows no probe on the exporter's own functions");
    }
    return attached;
}

void keep_least(double &least, double time) {
    least = std::min(least, time);
}

// The parts take turns, so that each has its chance of a moment in which the machine does nothing
// else. While others have the CPU, no time passes for this.
LeastTimes least_times(const Attached &attached, double untraced, const std::stop_token &stop) {
    LeastTimes least{.untraced = untraced};
    const nanoseconds until = now_on(CLOCK_THREAD_CPUTIME_ID) + longest;
    for (std::size_t round = 0; round < most_rounds; round++) {
        keep_least(least.entry, attached.batch(gpusnoop_calibrated_entry, CALIBRATED_NESTED));
        keep_least(least.stepped_entry,
                   attached.batch(gpusnoop_calibrated_stepped_entry, CALIBRATED_NESTED));
        keep_least(least.call, attached.batch(gpusnoop_calibrated_call, CALIBRATED_NESTED));
        keep_least(least.recorded, attached.batch(gpusnoop_calibrated_call, CALIBRATED_RECORD));
        keep_least(least.stack, attached.batch(gpusnoop_calibrated_call, CALIBRATED_STACK));
        if (now_on(CLOCK_THREAD_CPUTIME_ID) > until || stop.stop_requested()) {
            break;
        }
    }
    return least;
}

// Before anything is attached to the functions.
double time_untraced() {
    double least = LeastTimes::none;
    for (std::size_t round = 0; round < most_rounds; round++) {
        keep_least(least, nanoseconds_a_call(gpusnoop_calibrated_call));
    }
    return least;
}

std::uint32_t part(double with, double without) {
    return static_cast<std::uint32_t>(std::llround(std::max(0.0, with - without)));
}

}  // namespace

probe_costs costs_of(const LeastTimes &times) {
    return {.entry = part(times.entry, times.untraced),
            .stepped_entry = part(times.stepped_entry, times.untraced),
            .ending = part(times.call, times.entry),
            .record = part(times.recorded, times.call),
            .stack = part(times.stack, times.recorded)};
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

void LeastTimes::merge(const LeastTimes &other) {
    keep_least(untraced, other.untraced);
    keep_least(entry, other.entry);
    keep_least(stepped_entry, other.stepped_entry);
    keep_least(call, other.call);
    keep_least(recorded, other.recorded);
    keep_least(stack, other.stack);
}

// A mode that fails once is not tried again.
void Calibration::measure(const std::stop_token &stop) {
    keep_least(untraced_, time_untraced());
    const bool is_first = least_.empty();
    std::vector<std::unique_ptr<Attached>> done;  // detached last, which takes the longest
    for (const AttachMode mode : modes_) {
        if (stop.stop_requested()) {
            return;
        }
        if (!is_first && !least_.contains(mode)) {
            continue;
        }
        auto attached = attach(mode, sees_returns_);
        if (attached) {
            least_[mode].merge(least_times(**attached, untraced_, stop));
            done.push_back(std::move(*attached));
        } else if (is_first) {
            log::warn(
                "cannot measure the cost of probes, so gpusnoop_overhead_seconds_total is "
                "missing: run gpusnoop_exporter doctor",
                {{"mode", to_string(mode)}, {"reason", attached.error().message}});
            feature_.available = false;
            feature_.reason = attached.error().message;
        }
    }
    publish();
}

void Calibration::publish() {
    Measured measured{.costs = {}, .feature = feature_};
    for (const auto &[mode, times] : least_) {
        measured.costs.emplace(mode, costs_of(times));
    }
    on_measured_(measured.costs);
    const std::lock_guard lock(mutex_);
    measured_ = std::move(measured);
}

void Calibration::run(const std::stop_token &stop) {
    measure(stop);
    const auto cpu_times = [] { return cpu_times_in(read_start("/proc/stat", 4096).value_or("")); };
    const auto first = cpu_times();
    if (!first || least_.empty()) {
        return;
    }
    CalibrationSchedule schedule(now_on(CLOCK_MONOTONIC), *first);
    std::condition_variable_any never;
    std::mutex mutex;
    std::unique_lock lock(mutex);
    while (!schedule.is_done()) {
        never.wait_for(lock, stop, CalibrationSchedule::look_interval, [] { return false; });
        if (stop.stop_requested()) {
            return;
        }
        const auto times = cpu_times();
        if (times && schedule.is_due(now_on(CLOCK_MONOTONIC), *times)) {
            measure(stop);
        }
    }
}

}  // namespace gpusnoop::ebpf

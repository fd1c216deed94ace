#include "exporter/probes/syscall/trace.h"

#include <fcntl.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/probes/syscall/probe.h"
#include "exporter/probes/syscall/settings.h"
#include "exporter/symbols/names/syscall_names.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

namespace {

// The highest errno that the kernel returns, negated: MAX_ERRNO.
constexpr std::int64_t max_errno = 4095;

constexpr Option syscall_option = {
    .name = "--syscall",
    .takes = Option::Takes::texts,
    .help = "Only this system call, or group of system calls. Repeatable.",
    .problem = probes::syscall_problem};
constexpr Option call_options[] = {syscall_option};

class SyscallTracer final : public TargetTracer {
public:
    explicit SyscallTracer(const Setup &setup) : TargetTracer(setup) {}

private:
    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        config::Config config = setup().config;
        if (auto syscalls = setup().options.texts(syscall_option); !syscalls.empty()) {
            auto chosen = config.of<probes::SyscallConfig>();
            chosen.syscalls = std::move(syscalls);
            config.set(std::move(chosen));
        }
        return probes::make_syscall_tracer(
            config, traced, {.on_call = [this](const auto &record, auto, const auto &process) {
                write(event_of(record, process, clock_offset_ns()));
            }});
    }
};

}  // namespace

Event event_of(const syscall_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    Event event = make_event(began_ns(record.head.at_ns, record.nanoseconds, clock_offset_ns),
                             record.head.tgid, record.tid, process, "syscall",
                             probes::syscall_label(record.number));
    event.duration_ns = record.nanoseconds;
    if (record.number == SYSCALL_COMPAT || record.number == SYSCALL_UNKNOWN) {
        event.details.emplace_back("number", std::int64_t{record.made_with});
    }
    // It restores the registers that a signal handler interrupted, and has no result itself.
    if (record.number == syscall_number("rt_sigreturn")) {
        event.results = {{"result", Value()}, {"error", Value()}};
        return event;
    }
    const bool failed = record.result < 0 && record.result >= -max_errno;
    set_result(event, record.result,
               failed ? std::string(errno_name(static_cast<std::uint32_t>(-record.result))) : "");
    std::vector<Word> arguments;
    for (const std::uint64_t argument : record.arguments) {
        arguments.push_back({argument});
    }
    event.details.emplace_back("arguments", std::move(arguments));
    return event;
}

constinit const Kind syscall_trace = {.help = "System calls, with their arguments and results.",
                                      .column = "SYSCALL",
                                      .options = call_options,
                                      .make = make<SyscallTracer>};

namespace {

using namespace std::chrono_literals;

constexpr Option open_min_duration_option = {.name = "--min-duration",
                                             .takes = Option::Takes::duration,
                                             .help =
                                                 "Only opens that take at least this long: 10ms, "
                                                 "1s."};
constexpr Option failed_option = {.name = "--failed", .help = "Only opens that fail."};
constexpr Option open_options[] = {open_min_duration_option, failed_option};

class OpenTracer final : public TargetTracer {
public:
    explicit OpenTracer(const Setup &setup)
        : TargetTracer(setup),
          min_duration_(setup.options.duration_of(open_min_duration_option).value_or(0ms)),
          only_failed_(setup.options.has(failed_option)) {}

private:
    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        config::Config config = setup().config;
        auto opens = config.of<probes::SyscallConfig>();
        opens.syscalls = {"open", "creat", "openat", "openat2"};
        config.set(std::move(opens));
        return probes::make_syscall_tracer(
            config, traced,
            {.on_call =
                 [this](const auto &record, auto path, const auto &process) {
                     if (is_wanted(record)) {
                         write(open_event_of(record, path, process, clock_offset_ns()));
                     }
                 },
             .with_paths = true});
    }

    [[nodiscard]] bool is_wanted(const syscall_record &record) const {
        return std::chrono::nanoseconds(record.nanoseconds) >= min_duration_ &&
               (!only_failed_ || record.result < 0);
    }

    const std::chrono::nanoseconds min_duration_;
    const bool only_failed_;
};

// Where a call has its flags; -1: in the program's memory, or it has no such argument.
struct Place {
    int directory = -1;
    int flags = -1;
};

Place place_of(std::uint32_t number) {
    if (number == syscall_number("openat")) {
        return {.directory = 0, .flags = 2};
    }
    if (number == syscall_number("openat2")) {
        return {.directory = 0};
    }
    return {.flags = number == syscall_number("open") ? 1 : -1};
}

std::string flags_text(std::uint64_t flags) {
    std::string text = (flags & O_ACCMODE) == O_RDONLY   ? "O_RDONLY"
                       : (flags & O_ACCMODE) == O_WRONLY ? "O_WRONLY"
                       : (flags & O_ACCMODE) == O_RDWR   ? "O_RDWR"
                                                         : "O_ACCMODE";
    // O_TMPFILE and O_SYNC have the bits of O_DIRECTORY and O_DSYNC, too.
    constexpr std::pair<std::uint64_t, std::string_view> names[] = {
        {O_CREAT, "O_CREAT"},     {O_EXCL, "O_EXCL"},           {O_TRUNC, "O_TRUNC"},
        {O_APPEND, "O_APPEND"},   {O_NONBLOCK, "O_NONBLOCK"},   {O_DIRECT, "O_DIRECT"},
        {O_TMPFILE, "O_TMPFILE"}, {O_DIRECTORY, "O_DIRECTORY"}, {O_NOFOLLOW, "O_NOFOLLOW"},
        {O_SYNC, "O_SYNC"},       {O_DSYNC, "O_DSYNC"},         {O_CLOEXEC, "O_CLOEXEC"},
        {O_PATH, "O_PATH"},       {O_NOATIME, "O_NOATIME"}};
    for (const auto &[bits, name] : names) {
        if ((flags & bits) == bits) {
            text.append("|").append(name);
            flags &= ~bits;
        }
    }
    return text;
}

}  // namespace

Event open_event_of(const syscall_record &record, std::string_view path,
                    const probes::ProcessIdentity &process, std::int64_t clock_offset_ns) {
    Event event = event_of(record, process, clock_offset_ns);
    const Place place = place_of(record.number);
    Value directory;
    Value flags;
    if (place.directory >= 0) {
        const auto fd = static_cast<std::int32_t>(record.arguments[place.directory]);
        directory = fd == AT_FDCWD ? Value() : Value(std::int64_t{fd});
    }
    if (place.flags >= 0) {
        flags = flags_text(record.arguments[place.flags]);
    }
    event.details = {{"path", text_or_null(printable(path, SYSCALL_PATH_BYTES))},
                     {"directory", std::move(directory)},
                     {"flags", std::move(flags)}};
    return event;
}

constinit const Kind open_trace = {.name = "open",
                                   .help = "System calls that open files, with their paths.",
                                   .column = "SYSCALL",
                                   .options = open_options,
                                   .make = make<OpenTracer>};

}  // namespace gpusnoop::trace

// `gpusnoop_exporter trace`: a line for every call or event, for debugging. Each probe's trace is
// in the probe's folder.
//
// A trace is a separate process, with BPF programs and tables of its own, and no page. A probe that
// can be traced has a trace::Kind in its folder and in the registry: name, help and options as
// data, from which cli/trace_command.h makes a sub-command, and a function that makes the tracer.
// This folder runs any of them: on one thread, it drains the tracer's rings in rounds and writes
// the result (writer.h).
//
// `cuda` and `functions` have their own tracers (cuda/trace/, functions/trace/ in probes/), because
// they name kernels and stacks. The others pass on each record instead of counting it
// (probes/frame/trace/event_tracer.h). Those that trace only some processes
// (probes/frame/trace/target_tracer.h) run the probe `cuda` beside them, which finds GPU processes.
// Each makes an Event of a record (event_of() of the probe), and lines.h makes text or JSON of
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/trace/options.h"
#include "exporter/trace/writer.h"

namespace gpusnoop::trace {

// The inputs of a trace; all of them outlive the tracer.
struct Setup {
    const config::Config &config;
    const ebpf::Features &features;
    const Options &options;
    Writer &writer;
};

// A probe's trace. For one thread.
class Tracer {
public:
    virtual ~Tracer() = default;

    // Loads, attaches to everything that exists already, and logs it.
    virtual Result<> start() = 0;

    // The time between two drains.
    [[nodiscard]] virtual std::chrono::milliseconds interval() const = 0;

    // Writes the records that have come. The wall clock is `to_realtime` ahead of the monotonic
    // one.
    virtual void drain(std::chrono::nanoseconds to_realtime) = 0;

    // After the last drain: writes what it has held back.
    virtual void finish() {}

    // Calls or events that were lost so far.
    [[nodiscard]] virtual std::uint64_t lost() const = 0;
};

// A sub-command of `trace`.
struct Kind {
    std::string_view name = {};            // empty: that of its probe
    std::string_view alias = {};           // a former name; empty: it has none
    std::string_view help;                 // a sentence
    std::string_view column = "FUNCTION";  // the text's title over the functions or events
    std::span<const Option> options = {};  // besides the options of every trace
    std::unique_ptr<Tracer> (*make)(const Setup &setup);
};

template <typename T>
std::unique_ptr<Tracer> make(const Setup &setup) {
    return std::make_unique<T>(setup);
}

// Runs beside an exporter or another trace: its BPF programs and maps are its own. Writes to stdout
// until the reader is gone, the limit of lines or time is reached, or `stop_fd` is readable (it
// stays the caller's). SIGPIPE must be ignored. Fails if it cannot start, or cannot write for
// another reason, such as a full disk.
Result<> run(const Kind &kind, const config::Config &config, const Options &options, int stop_fd);

}  // namespace gpusnoop::trace

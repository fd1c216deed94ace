// `gpusnoop_exporter trace`: a line for every call or event, for debugging. What a probe's own
// trace is, its folder has.
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

// What a trace runs with; all of it outlives the tracer.
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

    // Loads, attaches to what can be attached to at once, and says so in the log.
    virtual Result<> start() = 0;

    // How long to wait between two drains.
    [[nodiscard]] virtual std::chrono::milliseconds interval() const = 0;

    // Writes what has come. The wall clock is `to_realtime` ahead of the monotonic one.
    virtual void drain(std::chrono::nanoseconds to_realtime) = 0;

    // Calls or events so far that could not be written.
    [[nodiscard]] virtual std::uint64_t lost() const = 0;
};

// A sub-command of `trace`, which is called as its probe.
struct Kind {
    std::string_view alias = {};           // a former name; empty: it has none
    std::string_view help;                 // a sentence
    std::string_view column = "FUNCTION";  // the text's header over what is called or happens
    std::span<const Option> options = {};  // beside those that every trace has
    std::unique_ptr<Tracer> (*make)(const Setup &setup);
};

template <typename T>
std::unique_ptr<Tracer> make(const Setup &setup) {
    return std::make_unique<T>(setup);
}

// Runs beside an exporter, or another trace: the programs and tables in the kernel are its own.
// Writes to stdout until there is nobody to read, until it has written or waited enough, or until
// `stop_fd` is readable (it stays the caller's). SIGPIPE must be ignored. Fails when it cannot
// start, or cannot write for another reason, such as a full disk.
Result<> run(const Kind &kind, const config::Config &config, const Options &options, int stop_fd);

}  // namespace gpusnoop::trace

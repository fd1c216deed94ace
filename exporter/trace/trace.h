// `gpusnoop_exporter trace`: a line for every call or event, for debugging. Each probe's trace is
// in the probe's folder.
//
// A trace is a separate process, with BPF programs and tables of its own, and no page. A probe that
// can be traced has a trace::Kind in its folder and in the registry: name, help and options as
// data, from which cli/trace_command.h makes a sub-command, and a function that makes the tracer.
// This folder runs any of them: on one thread, it drains the tracer's rings in rounds and writes
// the result (Writer).
//
// `cuda` and `functions` have their own tracers (cuda/trace/, functions/trace/ in probes/), because
// they name kernels and stacks. The others pass on each record instead of counting it
// (probes/frame/trace/event_tracer.h). Those that trace only some processes run the probe `cuda`
// beside them, which finds GPU processes.
// Each makes an Event of a record (event_of() of the probe), and lines.h makes text or JSON of
// it.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/glob.h"
#include "exporter/base/output.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/trace/event.h"

namespace gpusnoop::trace {

// The options of a trace.

enum class Format { text, json };

// An option that only some traces have, for the command line.
struct Option {
    enum class Takes { nothing, texts, duration };

    std::string_view name;  // "--slow"
    Takes takes = Takes::nothing;
    std::string_view help;
    // The mistake in a text; "" if it has none. Null: every text is valid.
    std::string (*problem)(const std::string &text) = nullptr;
    std::array<std::string_view, 2> excludes{};  // options before it, or ""
};

struct Options {
    Format format = Format::text;
    std::vector<std::uint32_t> pids;                    // at most TRACED_PIDS; empty: all
    std::vector<std::uint32_t> ppids;                   // at most TRACED_PIDS; empty: all
    std::string comm;                                   // a glob for names of processes; empty: all
    std::uint64_t count = 0;                            // lines to write, then stop; 0: no end
    std::optional<std::chrono::milliseconds> duration;  // then stop
    // The trace's own options that were given, by name, with their texts.
    std::map<std::string_view, std::vector<std::string>> given = {};

    [[nodiscard]] bool has(const Option &option) const { return given.contains(option.name); }
    [[nodiscard]] std::vector<std::string> texts(const Option &option) const;
    [[nodiscard]] std::optional<std::chrono::milliseconds> duration_of(const Option &option) const;
};

// Selects the processes of a trace.

// By the name of its process.
[[nodiscard]] inline bool wants_comm(const Options &options, const std::string &comm) {
    return options.comm.empty() || matches_glob(options.comm, comm);
}

// By its process's id, if the BPF programs do not filter by it.
[[nodiscard]] inline bool wants_pid(const Options &options, std::uint32_t pid) {
    return options.pids.empty() || std::ranges::find(options.pids, pid) != options.pids.end();
}

// By the id of the process that started its process.
[[nodiscard]] inline bool wants_ppid(const Options &options, std::uint32_t ppid) {
    return options.ppids.empty() || std::ranges::find(options.ppids, ppid) != options.ppids.end();
}

// Runs the rounds of a trace until its end: the same for every trace.

class Writer {
public:
    // `stop_fd` stays the caller's.
    Writer(const Options &options, int stop_fd);

    // The requested number of calls is written, or the reader is gone.
    [[nodiscard]] bool done() const {
        return output_.closed() || (options_.count != 0 && written_ >= options_.count);
    }
    // Does nothing once done(). A text may have several lines.
    void write(std::string_view text);
    void write(const Event &event);

    struct Rounds {
        std::chrono::milliseconds interval;
        std::string header;                   // of the text
        std::function<void()> drain;          // writes the records that have come
        std::function<void()> finish;         // writes what it has held back
        std::function<std::uint64_t()> lost;  // calls so far
    };
    // Returns at the end of the trace, for any reason: see Options. Logs the losses. Fails if the
    // lines could not be written.
    Result<> run(const Rounds &rounds);

private:
    const Options &options_;
    Output output_;
    std::uint64_t written_ = 0;
};

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

#include "exporter/trace/trace.h"

#include <time.h>
#include <unistd.h>

#include "exporter/base/log.h"
#include "exporter/config/units.h"
#include "exporter/ebpf/handover.h"
#include "exporter/system/machine.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

std::vector<std::string> Options::texts(const Option &option) const {
    const auto found = given.find(option.name);
    return found == given.end() ? std::vector<std::string>() : found->second;
}

std::optional<std::chrono::milliseconds> Options::duration_of(const Option &option) const {
    const auto found = given.find(option.name);
    return found == given.end() || found->second.empty()
               ? std::nullopt
               : config::parse_duration(found->second.front());
}

using std::chrono::steady_clock;

Writer::Writer(const Options &options, int stop_fd)
    : options_(options), output_(STDOUT_FILENO, stop_fd) {}

void Writer::write(std::string_view text) {
    if (!done()) {
        output_.add(text);
        written_++;
    }
}

void Writer::write(const Event &event) {
    if (!done()) {
        write(options_.format == Format::json ? json_line(event) : text_line(event));
    }
}

Result<> Writer::run(const Rounds &rounds) {
    const auto started = steady_clock::now();
    steady_clock::time_point looked_at_lost{};
    std::uint64_t lost_said = 0;
    if (options_.format == Format::text) {
        output_.add(rounds.header);
        output_.flush();
    }
    bool last_round = false;
    while (!done()) {
        rounds.drain();
        if (last_round) {
            rounds.finish();
        }
        output_.flush();
        if (last_round) {
            break;
        }
        // Records from before the end are written, too.
        last_round = output_.wait(static_cast<int>(rounds.interval.count())) ||
                     (options_.duration && steady_clock::now() - started >= *options_.duration);
        if (steady_clock::now() - looked_at_lost > std::chrono::seconds(1)) {
            looked_at_lost = steady_clock::now();
            if (const std::uint64_t now = rounds.lost(); now != lost_said) {
                lost_said = now;
                log::warn("dropped calls: they arrive faster than the output can be written",
                          {{"lost", now}});
            }
        }
    }
    log::info("trace ended", {{"written", written_}, {"lost", rounds.lost()}});
    return output_.error() == 0 ? Result<>() : fail_errno("write the calls", output_.error());
}

Result<> run(const Kind &kind, const config::Config &config, const Options &options, int stop_fd) {
    if (const auto enough = allow_many_files(); !enough) {
        return enough;
    }
    const auto features = ebpf::probe_features();
    if (const auto usable = ebpf::check_requirements(features); !usable) {
        return usable;
    }
    std::optional<ebpf::Handover> handover;  // for the probes that the tracer has attached
    Writer writer(options, stop_fd);
    const auto tracer = kind.make({config, features, options, writer});
    auto traced = tracer->start();
    if (traced) {
        traced =
            writer.run({tracer->interval(), text_header(kind.column),
                        [&] { tracer->drain(now_on(CLOCK_REALTIME) - now_on(CLOCK_MONOTONIC)); },
                        [&] { tracer->finish(); }, [&] { return tracer->lost(); }});
    }
    handover.emplace();
    ebpf::hand_over_perf_events();
    return traced;
}

}  // namespace gpusnoop::trace

#include "exporter/probes/functions/settings.h"

#include <utility>

#include "exporter/config/reader.h"
#include "exporter/config/units.h"

namespace gpusnoop::probes {

namespace {

using namespace std::chrono_literals;

void read_report(config::Section report, FunctionsConfig::Report &value) {
    report.duration("interval", value.interval, 0ms, 24h);
    if (value.interval > 0ms && value.interval < 1s) {
        report.reject("interval", "must be 0s, which is none, or 1s to 24h, is " +
                                      config::to_text(value.interval));
    }
    report.integer("rows", value.rows, 1, 1'000);
    report.finish();
}

void read_slow_calls(config::Section slow_calls, FunctionsConfig::SlowCalls &value) {
    slow_calls.accept_old_name("history", "keep");
    slow_calls.integer("history", value.history, 0, 1'000);
    slow_calls.integer("log_per_second", value.log_per_second, 0, 10'000);
    slow_calls.ring_bytes("ring_bytes", value.ring_bytes);
    slow_calls.finish();
}

}  // namespace

void read_functions(config::Section functions, config::Config &config) {
    FunctionsConfig value;
    functions.boolean("enabled", value.enabled);
    if (value.enabled) {  // else there is no probe to switch on
        functions.set_live("enabled");
    }
    functions.choice("attach", value.attach, ebpf::attach_names);
    functions.integer("max_calls_per_second", value.max_calls_per_second, 0, 1'000'000'000);
    functions.ring_bytes("ring_bytes", value.ring_bytes);
    functions.duration("drain_interval", value.drain_interval, 1ms, 1s);
    functions.integer("max_functions", value.max_functions, 1, 65'536);
    functions.set_live("max_functions");
    read_report(functions.section("report"), value.report);
    if (const config::Value *groups = functions.find("groups")) {
        read_function_groups(*groups, value.groups);
    }
    functions.note("groups", std::string());  // live, whatever its value
    functions.set_live("groups");
    read_slow_calls(functions.section("slow_calls"), value.slow_calls);
    functions.finish();
    config.set(std::move(value));
}

}  // namespace gpusnoop::probes

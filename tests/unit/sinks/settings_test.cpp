// `sinks:` and `functions.slow_calls:` of the configuration.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>

#include "exporter/config/config.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/functions/settings.h"
#include "exporter/sinks/target.h"

using namespace gpusnoop;
using config::Config;
using sinks::Events;
using sinks::TargetType;

namespace {

Config good(const std::string &text) {
    auto parsed = config::parse(text, "c.yaml", probes::setting_blocks());
    INFO(text);
    if (!parsed) {
        FAIL(parsed.error().message);
    }
    return *std::move(parsed);
}

std::string problem(const std::string &text) {
    const auto parsed = config::parse(text, "c.yaml", probes::setting_blocks());
    INFO(text);
    REQUIRE_FALSE(parsed);
    return parsed.error().message;
}

}  // namespace

TEST_CASE("every setting of sinks and slow calls is read") {
    const Config config = good(R"(
functions: {slow_calls: {history: 1000, log_per_second: 0, ring_bytes: 4KiB}}
sinks:
  - {type: file, path: /var/log/a}
  - {type: unix, path: /run/b, name: collector, events: all, entries: true, queue_bytes: 64KiB}
  - {type: tcp, address: "[::1]:9000", events: slow}
)");
    const auto &slow_calls = config.of<probes::FunctionsConfig>().slow_calls;
    const auto &sinks = config.of<sinks::SinkConfigs>();
    CHECK(slow_calls.history == 1000);
    CHECK(slow_calls.log_per_second == 0);
    CHECK(slow_calls.ring_bytes == 4096);
    REQUIRE(sinks.size() == 3);
    CHECK(sinks[0].name == "file:/var/log/a");
    CHECK(sinks[0].target.type == TargetType::file);
    CHECK(sinks[0].target.path == "/var/log/a");
    CHECK(sinks[0].events == std::set{Events::slow});
    CHECK(sinks[0].queue_bytes == 4U << 20U);
    CHECK(sinks[1].name == "collector");
    CHECK(sinks[1].target.type == TargetType::unix_socket);
    CHECK(sinks[1].events == std::set{Events::all});
    CHECK(sinks[1].entries);
    CHECK_FALSE(sinks[0].entries);
    CHECK(sinks[1].queue_bytes == 64U << 10U);
    CHECK(sinks[2].name == "tcp:[::1]:9000");
    CHECK(sinks[2].target.host == "::1");
    CHECK(sinks[2].target.port == 9000);
    const auto several = good("sinks: [{type: file, path: /a, events: [launch_gaps, slow]}]");
    CHECK(several.of<sinks::SinkConfigs>().at(0).events ==
          std::set{Events::slow, Events::launch_gaps});
    CHECK(good("sinks:").of<sinks::SinkConfigs>().empty());
    CHECK(good("sinks: []").of<sinks::SinkConfigs>().empty());
}

TEST_CASE("each wrong value of sinks and slow calls has a place and a sentence") {
    const std::pair<std::string, std::string> wrong[] = {
        {"sinks: file", "c.yaml:1:8: sinks: expected a list of sinks, got \"file\""},
        {"sinks: {type: file}", "c.yaml:1:8: sinks: expected a list of sinks, got a mapping"},
        {"sinks: [file]",
         "c.yaml:1:9: sinks[0]: expected a mapping of keys to values, got \"file\""},
        {"sinks: [{path: /a}]",
         "c.yaml:1:9: sinks[0]: has no type: every sink needs one, file, unix or tcp"},
        {"sinks: [{type: pipe, path: /a}]",
         "c.yaml:1:16: sinks[0].type: expected file, unix or tcp, got \"pipe\""},
        {"sinks: [{type: file}]", "c.yaml:1:9: sinks[0]: has no path: a file needs one"},
        {"sinks: [{type: tcp}]", "c.yaml:1:9: sinks[0]: has no address: tcp needs one"},
        {"sinks: [{type: file, path: a}]",
         "c.yaml:1:28: sinks[0].path: \"a\" is not an absolute path of a file"},
        {"sinks: [{type: unix, path: a}]",
         "c.yaml:1:28: sinks[0].path: \"a\" is not an absolute path of a socket"},
        {"sinks: [{type: tcp, address: host}]",
         "c.yaml:1:30: sinks[0].address: \"host\" is not an address such as collector:9000, "
         "10.0.0.1:9000 or [::1]:9000"},
        {"sinks: [{type: tcp, address: 'h:1', path: /a}]",
         "c.yaml:1:43: sinks[0].path: does not go with tcp, which has an address"},
        {"sinks: [{type: file, path: /a, address: 'h:1'}]",
         "c.yaml:1:41: sinks[0].address: does not go with a file, which has a path"},
        {"sinks: [{type: file, path: /a, entries: true}]",
         "c.yaml:1:41: sinks[0].entries: has no effect: only a sink with \"events: all\" has them"},
        {"sinks: [{type: file, path: /a, events: some}]",
         "c.yaml:1:40: sinks[0].events: expected slow, all, launch_gaps, out_of_memory or "
         "job_reports, got \"some\""},
        {"sinks: [{type: file, path: /a, events: [slow, some]}]",
         "c.yaml:1:47: sinks[0].events[1]: expected slow, all, launch_gaps, out_of_memory or "
         "job_reports, got \"some\""},
        {"sinks: [{type: file, path: /a, events: []}]",
         "c.yaml:1:40: sinks[0].events: must name 1 to 5 kinds of events, names 0"},
        {"sinks: [{type: file, path: /a, events: {}}]",
         "c.yaml:1:40: sinks[0].events: expected slow, all, launch_gaps, out_of_memory or "
         "job_reports, got a mapping"},
        {"sinks: [{type: file, path: /a, name: ''}]",
         "c.yaml:1:38: sinks[0].name: must be 1 to 128 bytes of text without control characters"},
        {"sinks: [{type: file, path: /a, event: all}]",
         "c.yaml:1:32: sinks[0].event: unknown key, did you mean \"events\"?"},
        {"sinks:\n  - {type: file, path: /a}\n  - {type: file, path: /a}",
         "c.yaml:3:5: sinks[1]: the name \"file:/a\" is that of the sink on line 2 already"},
        {"functions: {slow_calls: {history: 1001}}", "c.yaml:1:35: functions.slow_calls.history: "},
        {"functions: {slow_calls: {log_per_second: -1}}",
         "c.yaml:1:42: functions.slow_calls.log_per_second: "},
        {"functions: {slow_calls: {ring_bytes: 5000}}",
         "c.yaml:1:38: functions.slow_calls.ring_bytes: must be a power of two, is 5000"},
    };
    for (const auto &[text, sentence] : wrong) {
        const std::string message = problem(text);
        INFO(message);
        CHECK(message.starts_with(sentence));
        CHECK(message.find('\n') == std::string::npos);
    }
    std::string many = "sinks:\n";
    for (int i = 0; i < 17; i++) {
        many += "  - {type: file, path: /" + std::to_string(i) + "}\n";
    }
    CHECK(problem(many).find("must name 0 to 16 sinks, names 17") != std::string::npos);
    CHECK(problem("sinks: [{type: file, path: /a, queue_bytes: 1KiB}]")
              .find("sinks[0].queue_bytes: ") != std::string::npos);
}

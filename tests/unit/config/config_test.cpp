#include "exporter/config/config.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/nvlink/probe.h"
#include "tests/unit/config/problems.h"

using namespace gpusnoop;
using namespace gpusnoop::test;
using namespace std::chrono_literals;
using config::Config;

namespace {

Config good(const std::string &text) {
    const auto parsed = config::parse(text, "c.yaml", probes::setting_blocks());
    INFO(text);
    if (!parsed) {
        FAIL(parsed.error().message);
    }
    return *parsed;
}

// The dotted paths of all keys of a YAML file that is written in blocks.
std::set<std::string> keys_of(const std::filesystem::path &path) {
    std::ifstream file(path);
    std::set<std::string> keys;
    std::vector<std::pair<std::size_t, std::string>> parents;  // indentation and path
    for (std::string line; std::getline(file, line);) {
        const std::size_t indent = line.find_first_not_of(' ');
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos || line.find('#') < colon || line[indent] == '-') {
            continue;
        }
        while (!parents.empty() && parents.back().first >= indent) {
            parents.pop_back();
        }
        const std::string key = (parents.empty() ? "" : parents.back().second + ".") +
                                line.substr(indent, colon - indent);
        parents.emplace_back(indent, key);
        keys.insert(key);
    }
    return keys;
}

}  // namespace

TEST_CASE("the shipped config.yaml says what the defaults in code say") {
    const auto shipped = config::load(shipped_config().string(), probes::setting_blocks());
    REQUIRE(shipped);
    CHECK(*shipped == Config{});
}

TEST_CASE("the shipped config.yaml names every setting") {
    const std::set<std::string> said = keys_of(shipped_config());
    for (const std::string &key : good("").values.keys()) {
        INFO(key);
        CHECK(said.contains(key));
    }
}

TEST_CASE("an empty configuration is the defaults") {
    for (const std::string text :
         {"", "\n", "# nothing\n", "---\n", "--- \n...\n", "{}", "~", "web:\nlog:\nseries:\n",
          "series: {budgets: }", "\xEF\xBB\xBF# with a byte order mark\n", "%YAML 1.2\n---\n"}) {
        INFO(text);
        CHECK(good(text) == Config{});
    }
}

TEST_CASE("configurations are compared by all that their blocks say, absent ones as defaults") {
    Config config;
    config.set(probes::NvlinkConfig{});
    CHECK(config == Config{});
    CHECK(Config{} == config);
    const Config same = config;
    config.set(probes::NvlinkConfig{false, 4096});
    CHECK(config.of<probes::NvlinkConfig>().ring_bytes == 4096);
    CHECK(config != Config{});
    CHECK(Config{} != config);
    CHECK(same.of<probes::NvlinkConfig>().enabled);
    CHECK(same != config);
}

TEST_CASE("every setting is read") {
    const Config config = good(R"(
web: {listen_address: ["127.0.0.1:9", "unix:/run/s"], telemetry_path: /gpu/metrics}
log: {level: debug, format: "json"}
labels: {pid: true}
series:
  budget: 10
  budgets: {gpusnoop_a: 1000000, gpusnoop_b_total: 11}
  retention: 24h
discovery: {rescan_interval: 1500ms, keep: 0s, preattach: [/opt/x/*.so], nvidia_proc_path: /host/proc/driver/nvidia,
            exclude: [/opt/x/*, 'build_id:00ff']}
)");
    Config expected;
    expected.web = {{"127.0.0.1:9", "unix:/run/s"}, "/gpu/metrics"};
    expected.log = {log::Level::debug, log::Format::json};
    expected.labels.pid = true;
    expected.series = {10, {{"gpusnoop_a", 1000000}, {"gpusnoop_b_total", 11}}, 24h};
    expected.discovery = {
        1500ms, 0s, {"/opt/x/*.so"}, "/host/proc/driver/nvidia", {"/opt/x/*", "build_id:00ff"}};
    CHECK(config == expected);
}

TEST_CASE("durations and sizes have units") {
    CHECK(good("series: {retention: 10s}").series.retention == 10s);
    CHECK(good("series: {retention: 90m}").series.retention == 90min);
    CHECK(good("series: {retention: 10000ms}").series.retention == 10s);
    CHECK(good("nvlink: {ring_bytes: 65536}").of<probes::NvlinkConfig>().ring_bytes == 65536);
    CHECK(good("nvlink: {ring_bytes: 4KiB}").of<probes::NvlinkConfig>().ring_bytes == 4096);
    for (const std::string text :
         {"10", "10 s", "s", "-1s", "1.5s", "1h30m", "10S", "0x10s", "1d", "10sec", "''",
          "99999999999999999999s", "9223372036854775807h"}) {
        INFO(text);
        CHECK(problems("series: {retention: " + text + "}")
                  .starts_with("c.yaml:1:21: series.retention: expected a duration such as"));
    }
    for (const std::string text :
         {"4MB", "4M", "4 MiB", "-4096", "4GiB", "KiB", "4mib", "1e6", "18446744073709551615MiB"}) {
        INFO(text);
        CHECK(problems("cuda: {call_ring_bytes: " + text + "}")
                  .starts_with("c.yaml:1:25: cuda.call_ring_bytes: expected a size in bytes"));
    }
}

TEST_CASE("a mistake is reported with its place, its key and what to do") {
    struct Case {
        std::string text;
        std::string message;
    };
    const std::vector<Case> cases = {
        {"wbe:\n", R"(c.yaml:1:1: wbe: unknown key, did you mean "web"?)"},
        {"web: {}\nfoo: 1\n", "c.yaml:2:1: foo: unknown key"},
        {"web:\n  listen_adress: x\n",
         R"(c.yaml:2:3: web.listen_adress: unknown key, did you mean "listen_address"?)"},
        {"labels: {pdi: true}", R"(c.yaml:1:10: labels.pdi: unknown key, did you mean "pid"?)"},
        {"<<: {web: {}}", "c.yaml:1:1: <<: unknown key"},
        {"web: {}\nlog: {}\nweb: {}\n", "c.yaml:3:1: web: given twice, first on line 1"},
        {"log:\n  level: info\n  level: info\n",
         "c.yaml:3:3: log.level: given twice, first on line 2"},
        {"? [a]\n: 1\n", "c.yaml:1:3: expected a word as the key, got a list"},
        {"web: 1", R"(c.yaml:1:6: web: expected a mapping of keys to values, got "1")"},
        {"web:\n  - a\n", "c.yaml:2:3: web: expected a mapping of keys to values, got a list"},
        {"- a", "c.yaml:1:1: expected a mapping of keys to values, got a list"},
        {"text", R"(c.yaml:1:1: expected a mapping of keys to values, got "text")"},
        {"web: {listen_address: 19435}",
         R"(c.yaml:1:23: web.listen_address: "19435" is not an address to listen on: )"
         "expected :PORT, ADDRESS:PORT, [IPV6]:PORT or unix:/PATH"},
        {"web: {listen_address: [\":1\", nowhere]}",
         R"(c.yaml:1:30: web.listen_address[1]: "nowhere" is not an address to listen on: )"
         "expected :PORT, ADDRESS:PORT, [IPV6]:PORT or unix:/PATH"},
        {"web: {listen_address: []}",
         "c.yaml:1:23: web.listen_address: must name 1 to 16 addresses, names 0"},
        {"web:\n  listen_address:\n",
         "c.yaml:2:3: web.listen_address: expected a text, got nothing"},
        {"web: {telemetry_path: /}",
         R"(c.yaml:1:23: web.telemetry_path: "/" is not a path such as /metrics that this )"
         "server can use"},
        {"web: {telemetry_path: /-/ready}",
         R"(c.yaml:1:23: web.telemetry_path: "/-/ready" is not a path such as /metrics that this )"
         "server can use"},
        {"log: {level: INFO}",
         R"(c.yaml:1:14: log.level: expected debug, info, warn or error, got "INFO")"},
        {"log: {format: {}}", "c.yaml:1:15: log.format: expected logfmt or json, got a mapping"},
        {"labels: {pid: yes}", R"(c.yaml:1:15: labels.pid: expected true or false, got "yes")"},
        {"labels: {pid: 'true'}",
         R"(c.yaml:1:15: labels.pid: expected true or false, got the text "true": )"
         "remove the quotes"},
        {"labels: {pid: !!bool true}",
         R"(c.yaml:1:15: labels.pid: tags are not supported, remove "tag:yaml.org,2002:bool")"},
        {"series: {budget: 9}", "c.yaml:1:18: series.budget: must be between 10 and 1000000, is 9"},
        {"series: {budget: 1000001}",
         "c.yaml:1:18: series.budget: must be between 10 and 1000000, is 1000001"},
        {"series: {budget: 99999999999999999999}",
         "c.yaml:1:18: series.budget: must be between 10 and 1000000, is 99999999999999999999"},
        {"series: {budget: 0100}",
         R"(c.yaml:1:18: series.budget: "0100" begins with 0, by which many readers of YAML take )"
         "it for octal: leave that out"},
        {"series: {retention: 010s}",
         R"(c.yaml:1:21: series.retention: "010s" begins with 0, by which many readers of YAML )"
         "take it for octal: leave that out"},
        {"cuda: {call_ring_bytes: 04096}",
         R"(c.yaml:1:25: cuda.call_ring_bytes: "04096" begins with 0, by which many readers of )"
         "YAML take it for octal: leave that out"},
        {"web: {listen_address: [\":1\", \"localhost:2\", \"127.0.0.1:2\"]}",
         R"(c.yaml:1:45: web.listen_address[2]: "127.0.0.1:2" is in the list twice)"},
        {"web: {listen_address: [unix:/a, unix:/b, unix:/a]}",
         R"(c.yaml:1:42: web.listen_address[2]: "unix:/a" is in the list twice)"},
        {"series: {budget: 1e3}",
         R"(c.yaml:1:18: series.budget: expected a whole number, got "1e3")"},
        {"series: {budget: +100}",
         R"(c.yaml:1:18: series.budget: expected a whole number, got "+100")"},
        {"series: {budget: '100'}",
         R"(c.yaml:1:18: series.budget: expected a whole number, got the text "100": )"
         "remove the quotes"},
        {"series:\n  budgets: {m: 5}\n",
         "c.yaml:2:16: series.budgets.m: must be between 10 and 1000000, is 5"},
        {"series:\n  budgets: {m: 50, m: 60}\n",
         "c.yaml:2:20: series.budgets.m: given twice, first on line 2"},
        {"series:\n  budgets: {a b: 50}\n",
         R"(c.yaml:2:13: series.budgets: "a b" is not a metric name)"},
        {"series: {retention: 9999ms}",
         "c.yaml:1:21: series.retention: must be between 10s and 24h, is 9999ms"},
        {"series: {retention: 25h}",
         "c.yaml:1:21: series.retention: must be between 10s and 24h, is 25h"},
        {"discovery: {rescan_interval: 61m}",
         "c.yaml:1:30: discovery.rescan_interval: must be between 1s and 1h, is 61m"},
        {"discovery: {nvidia_proc_path: proc/driver/nvidia}",
         R"(c.yaml:1:31: discovery.nvidia_proc_path: "proc/driver/nvidia" does not begin with /: )"
         "an absolute path is needed"},
        {"discovery: {keep: 25h}",
         "c.yaml:1:19: discovery.keep: must be between 0ms and 24h, is 25h"},
        {"discovery: {preattach: [libcuda.so.1]}",
         "c.yaml:1:25: discovery.preattach[0]: must be a path that begins with /, or a glob of "
         "such "
         R"(paths, is "libcuda.so.1")"},
        {"discovery: {exclude: [libcudart.so]}",
         "c.yaml:1:23: discovery.exclude[0]: must be a glob of paths that begins with / or *, or "
         R"(build_id: and digits in lower-case hexadecimal, is "libcudart.so")"},
        {"cuda: {libraries: libcudart.so}",
         R"(c.yaml:1:19: cuda.libraries: expected a list of file names, got "libcudart.so")"},
        {"cuda: {libraries: []}", "c.yaml:1:19: cuda.libraries: must name 1 to 64 files, names 0"},
        {"cuda:\n  libraries:\n    - ok\n    - a/b\n",
         R"(c.yaml:4:7: cuda.libraries[1]: must be a file name without a directory, is "a/b")"},
        {"cuda: {libraries: ['']}",
         "c.yaml:1:20: cuda.libraries[0]: must be 1 to 255 bytes long, is 0"},
        {"cuda: {libraries: [[a]]}",
         "c.yaml:1:20: cuda.libraries[0]: expected a file name, got a list"},
        {"cuda: {attach: kprobe}",
         R"(c.yaml:1:16: cuda.attach: expected auto, session, multi or perf, got "kprobe")"},
        {"cuda: {max_calls_per_second: -1}",
         "c.yaml:1:30: cuda.max_calls_per_second: must be between 0 and 1000000000, is -1"},
        {"cuda: {max_overhead: 5}",
         R"(c.yaml:1:22: cuda.max_overhead: expected 0 or a share such as 5%, got "5")"},
        {"cuda: {max_overhead: 51%}",
         "c.yaml:1:22: cuda.max_overhead: must be between 0 and 50%, is 51%"},
        {"cuda: {max_overhead: 05%}",
         R"(c.yaml:1:22: cuda.max_overhead: "05%" begins with 0, by which many readers of YAML take it )"
         "for octal: leave that out"},
        {"cuda: {call_ring_bytes: 5000}",
         "c.yaml:1:25: cuda.call_ring_bytes: must be a power of two, is 5000"},
        {"cuda: {call_ring_bytes: 2KiB}",
         "c.yaml:1:25: cuda.call_ring_bytes: must be between 4KiB and 256MiB, is 2KiB"},
        {"cuda: {allocation_ring_bytes: 512MiB}",
         "c.yaml:1:31: cuda.allocation_ring_bytes: must be between 4KiB and 256MiB, is 512MiB"},
        {"cuda: {drain_interval: 0ms}",
         "c.yaml:1:24: cuda.drain_interval: must be between 1ms and 1s, is 0ms"},
        {"cuda: {max_live_allocations: 1023}",
         "c.yaml:1:30: cuda.max_live_allocations: must be between 1024 and 67108864, is 1023"},
        {"cuda: {max_live_allocations: 67108865}",
         "c.yaml:1:30: cuda.max_live_allocations: must be between 1024 and 67108864, is 67108865"},
        {"cuda: {max_registered_kernels: 0}",
         "c.yaml:1:32: cuda.max_registered_kernels: must be between 1 and 16777216, is 0"},
        {"cuda: {pin: 1}", R"(c.yaml:1:13: cuda.pin: expected auto, true or false, got "1")"},
        {"cuda: {pin_path: gpusnoop}",
         R"(c.yaml:1:18: cuda.pin_path: "gpusnoop" does not begin with /: an absolute path is )"
         "needed"},
        {"cuda: {max_call_stacks: 15}",
         "c.yaml:1:25: cuda.max_call_stacks: must be between 16 and 1048576, is 15"},
        {"cuda: {max_call_sites: 1001}",
         "c.yaml:1:24: cuda.max_call_sites: must be between 0 and 1000, is 1001"},
    };
    for (const Case &c : cases) {
        INFO(c.text);
        CHECK(problems(c.text) == c.message);
    }
}

TEST_CASE("all mistakes are reported, in the order of the file") {
    CHECK(
        problems("cuda:\n"
                 "  enabled: 1\n"
                 "  call_ring_bytes: x\n"
                 "lables: {}\n"
                 "web: {port: 1}\n"
                 "log: {levle: y, level: x}\n") ==
        "c.yaml:2:12: cuda.enabled: expected true or false, got \"1\"\n"
        "c.yaml:3:20: cuda.call_ring_bytes: expected a size in bytes such as 65536, 64KiB or 4MiB, "
        "got \"x\"\n"
        "c.yaml:4:1: lables: unknown key, did you mean \"labels\"?\n"
        "c.yaml:5:7: web.port: unknown key\n"
        "c.yaml:6:7: log.levle: unknown key, did you mean \"level\"?\n"
        "c.yaml:6:24: log.level: expected debug, info, warn or error, got \"x\"");
    std::string many;
    for (int i = 0; i < 150; ++i) {
        many += "key" + std::to_string(i) + ": 1\n";
    }
    const std::string all = problems(many);
    CHECK(std::count(all.begin(), all.end(), '\n') == 100);
    CHECK(all.ends_with("\nc.yaml: and 50 more problems"));
}

TEST_CASE("budgets are checked against the metrics there are") {
    const std::vector<std::string> metrics = {"gpusnoop_syscalls_total", "gpusnoop_series"};
    CHECK(problems("series: {budgets: {gpusnoop_series: 10}}", metrics).empty());
    CHECK(problems("series: {budgets: {gpusnoop_syscall_total: 10}}", metrics) ==
          "c.yaml:1:20: series.budgets.gpusnoop_syscall_total: unknown metric, did you mean "
          "\"gpusnoop_syscalls_total\"?");
}

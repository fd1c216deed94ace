#include "exporter/config/reload.h"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace gpusnoop;
using config::Config;
using config::keys_for_restart;

namespace {

using Keys = std::vector<std::string>;

Config parsed(const std::string &text) {
    const auto config = config::parse(text, "config.yaml");
    INFO(text);
    REQUIRE(config);
    return *config;
}

// Something else than the default, for each key that needs a restart.
const std::map<std::string, std::string> &other_values() {
    static const std::map<std::string, std::string> values = {
        {"web.listen_address", "\":1234\""},
        {"web.telemetry_path", "/other"},
        {"log.format", "json"},
        {"capabilities.keep", "all"},
        {"labels.pid", "true"},
        {"series.budget", "100"},
        {"series.budgets", "{gpusnoop_function_calls_total: 50}"},
        {"series.retention", "1m"},
        {"discovery.rescan_interval", "2s"},
        {"discovery.nvidia_proc_path", "/elsewhere"},
        {"discovery.exclude", "[/opt/*]"},
        {"cuda.enabled", "false"},
        {"cuda.libraries", "[\"libother.so*\"]"},
        {"cuda.attach", "perf"},
        {"cuda.endings", "exits"},
        {"cuda.max_calls_per_second", "7"},
        {"cuda.allocation_ring_bytes", "64KiB"},
        {"cuda.call_ring_bytes", "64KiB"},
        {"cuda.drain_interval", "20ms"},
        {"cuda.max_live_allocations", "2048"},
        {"cuda.max_registered_kernels", "100"},
        {"cuda.pin", "true"},
        {"cuda.pin_path", "/sys/fs/bpf/other"},
        {"cuda.call_stacks", "false"},
        {"cuda.max_call_stacks", "100"},
        {"cuda.call_sites", "3"},
        {"targets.gpu_processes", "false"},
        {"targets.everything", "true"},
        {"targets.pids", "[7]"},
        {"targets.comms", "[\"python*\"]"},
        {"targets.containers", "[\"0123456789ab\"]"},
        {"syscall.enabled", "true"},
        {"syscall.syscalls", "[memory, ioctl]"},
        {"syscall.max_counts", "64"},
        {"fence.enabled", "false"},
        {"fence.max_fences", "64"},
        {"fence.ring_bytes", "64KiB"},
        {"functions.attach", "perf"},
        {"functions.max_calls_per_second", "7"},
        {"functions.ring_bytes", "64KiB"},
        {"functions.drain_interval", "20ms"},
        {"functions.slow_calls", "{keep: 3}"},
        {"functions.report", "{interval: 1m}"},
        {"pcie.enabled", "false"},
        {"pcie.classes", "[all]"},
        {"pcie.ring_bytes", "64KiB"},
        {"nvlink.enabled", "false"},
        {"nvlink.ring_bytes", "64KiB"},
        {"sinks", "[{type: file, path: /tmp/events}]"},
    };
    return values;
}

const std::set<std::string> at_run_time = {"log.level", "functions.enabled",
                                           "functions.max_functions", "functions.groups"};

std::string set(const std::string &key, const std::string &value) {
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos) {
        return key + ": " + value + "\n";
    }
    return key.substr(0, dot) + ": {" + key.substr(dot + 1) + ": " + value + "}\n";
}

}  // namespace

TEST_CASE("each key that only a restart brings into effect is named, and no other") {
    for (const auto &[key, value] : other_values()) {
        INFO(key);
        const Config other = parsed(set(key, value));
        CHECK(keys_for_restart(Config{}, other) == Keys{key});
        CHECK(keys_for_restart(other, Config{}) == Keys{key});
        CHECK(keys_for_restart(other, other).empty());
    }
}

TEST_CASE("every key of the shipped file is one that changes at run time or needs a restart") {
    std::ifstream file(std::filesystem::path(GPUSNOOP_SOURCE_DIR) / "config.yaml");
    std::string section;
    std::size_t keys = 0;
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos || line.find('#') < colon) {
            continue;
        }
        if (line[0] != ' ') {
            section = line.substr(0, colon);
            keys += other_values().contains(section) ? 1 : 0;
        } else if (line.starts_with("  ") && line[2] != ' ' && line[2] != '-') {
            const std::string key = section + "." + line.substr(2, colon - 2);
            INFO(key);
            CHECK(other_values().contains(key) != at_run_time.contains(key));
            keys++;
        }
    }
    CHECK(keys == other_values().size() + at_run_time.size());
}

TEST_CASE("groups, the most functions and the level of the log change at run time") {
    const Config other = parsed(R"(
log: {level: debug}
functions:
  max_functions: 3
  groups:
    nccl: {slow_threshold: 1ms}
    own: {libraries: [lib.so], functions: [f]}
)");
    CHECK(keys_for_restart(Config{}, other).empty());
    CHECK(keys_for_restart(other, Config{}).empty());
}

TEST_CASE("functions can be switched off and on again, if the probe is there") {
    const Config off = parsed("functions: {enabled: false}\n");
    CHECK(keys_for_restart(Config{}, off).empty());
    CHECK(keys_for_restart(off, Config{}) == Keys{"functions.enabled"});
    CHECK(keys_for_restart(off, off).empty());
}

TEST_CASE("several keys are named in the order of the file") {
    const Config other = parsed(
        "functions: {ring_bytes: 64KiB}\ncuda: {pin: true}\nweb: {listen_address: \":1\"}\n");
    CHECK(keys_for_restart(Config{}, other) ==
          Keys{"web.listen_address", "cuda.pin", "functions.ring_bytes"});
}

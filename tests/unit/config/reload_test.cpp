// Which changed settings need a restart.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;
using config::Config;

namespace {

using Keys = std::vector<std::string>;

Config parsed(const std::string &text) {
    const auto config = config::parse(text, "config.yaml", probes::setting_blocks());
    INFO(text);
    REQUIRE(config);
    return *config;
}

Keys keys_for_restart(const Config &started, const Config &wanted) {
    return config::keys_for_restart(started.values, wanted.values);
}

// Keys of which a change takes effect at once.
const std::set<std::string> live = {"log.level", "functions.enabled", "functions.max_functions",
                                    "functions.groups"};

// "a: {b: {c: VALUE}}"
std::string set(const std::string &key, const std::string &value) {
    std::string text = value;
    std::string rest = key;
    for (std::size_t dot = 0; (dot = rest.rfind('.')) != std::string::npos; rest.resize(dot)) {
        text = "{" + rest.substr(dot + 1) + ": " + text + "}";
    }
    return rest + ": " + text + "\n";
}

// A configuration in which this key is not what it is by default: the first value here that the key
// takes and that changes anything.
std::optional<Config> changed(const std::string &key, const Config &defaults) {
    static const Keys values = {"true",
                                "false",
                                "7",
                                "100",
                                "5%",
                                "2048",
                                "64KiB",
                                "1m",
                                "20ms",
                                "json",
                                "all",
                                "perf",
                                "kmsg",
                                "exits",
                                "/other",
                                "\":1234\"",
                                "[all]",
                                "[7]",
                                "[gpusnoop_cuda_memcpy_size_bytes]",
                                "[memory, ioctl]",
                                "[/opt/*]",
                                "[\"libother.so*\"]",
                                "[\"python*\"]",
                                "[\"0123456789ab\"]",
                                "{gpusnoop_function_calls_total: 50}",
                                "[{type: file, path: /tmp/events}]"};
    for (const std::string &value : values) {
        const auto config = config::parse(set(key, value), "config.yaml", probes::setting_blocks());
        if (config && *config != defaults) {
            return *config;
        }
    }
    return std::nullopt;
}

}  // namespace

TEST_CASE("each key that only a restart brings into effect is named, and no other") {
    const Config defaults = parsed("");
    const Keys keys = defaults.values.keys();
    CHECK(std::set(keys.begin(), keys.end()).size() == keys.size());
    CHECK(std::ranges::all_of(
        live, [&](const std::string &key) { return std::ranges::find(keys, key) != keys.end(); }));
    for (const std::string &key : keys) {
        if (live.contains(key)) {
            continue;
        }
        INFO(key << ": if no value of changed() is one that it takes, add one");
        const auto other = changed(key, defaults);
        REQUIRE(other);
        CHECK(keys_for_restart(defaults, *other) == Keys{key});
        CHECK(keys_for_restart(*other, defaults) == Keys{key});
        CHECK(keys_for_restart(*other, *other).empty());
    }
}

TEST_CASE("a value that the file says is the same as the default that it says") {
    const auto shipped =
        config::load(std::string(GPUSNOOP_SOURCE_DIR) + "/config.yaml", probes::setting_blocks());
    REQUIRE(shipped);
    CHECK(keys_for_restart(*shipped, parsed("")).empty());
    CHECK(keys_for_restart(parsed("series: {retention: 600s}\nnvlink: {ring_bytes: 1024KiB}"),
                           parsed("series: {retention: 10m}\nnvlink: {ring_bytes: 1MiB}"))
              .empty());
    CHECK(keys_for_restart(parsed("targets: {comms: [\"a1:b\", c]}"),
                           parsed("targets: {comms: [a, \"1:bc\"]}")) == Keys{"targets.comms"});
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
    CHECK(keys_for_restart(parsed(""), other).empty());
    CHECK(keys_for_restart(other, parsed("")).empty());
}

TEST_CASE("functions can be switched off and on again, if the probe is there") {
    const Config on = parsed("");
    const Config off = parsed("functions: {enabled: false}\n");
    CHECK(keys_for_restart(on, off).empty());
    CHECK(keys_for_restart(off, on) == Keys{"functions.enabled"});
    CHECK(keys_for_restart(off, off).empty());
}

TEST_CASE("several keys are named in the order in which they are read") {
    const Config other = parsed(
        "functions: {ring_bytes: 64KiB}\ncuda: {pin: true}\nweb: {listen_address: \":1\"}\n");
    CHECK(keys_for_restart(parsed(""), other) ==
          Keys{"web.listen_address", "cuda.pin", "functions.ring_bytes"});
}

TEST_CASE("a key that the command line overrides needs no restart") {
    Config started = parsed("");
    Config wanted = parsed("web: {listen_address: \":1\"}\nlog: {format: json}\n");
    for (Config *const config : {&started, &wanted}) {
        config->values.erase("web.listen_address");
    }
    CHECK(keys_for_restart(started, wanted) == Keys{"log.format"});
}

// The block `functions:` of the configuration: groups of libraries and functions.
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/functions/setting_groups.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/probes/functions/settings.h"

using namespace gpusnoop;
using namespace std::chrono_literals;
using gpusnoop::probes::ErrorKind;
using probes::FunctionGroup;
using probes::FunctionPattern;
using probes::FunctionsConfig;

namespace {

FunctionsConfig good(const std::string &text) {
    const auto parsed = config::parse(text, "c.yaml", probes::setting_blocks());
    INFO(text);
    if (!parsed) {
        FAIL(parsed.error().message);
    }
    return parsed->of<FunctionsConfig>();
}

// A group "own" with these keys beside what every group needs.
FunctionGroup group(const std::string &keys) {
    return good("functions: {groups: {own: {libraries: [a.so], functions: [f], " + keys + "}}}")
        .groups.at("own");
}

// The only function of a group that says this of it.
FunctionPattern function(const std::string &text) {
    const auto groups =
        good("functions: {groups: {own: {libraries: [a.so], functions: [" + text + "]}}}").groups;
    REQUIRE(groups.at("own").functions.size() == 1);
    return groups.at("own").functions.front();
}

// The lines of the shipped config.yaml from `functions:` on.
std::vector<std::string> shipped_lines() {
    std::ifstream file(std::filesystem::path(GPUSNOOP_SOURCE_DIR) / "config.yaml");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
        if (!lines.empty() || line == "functions:") {
            lines.push_back(line);
        }
    }
    return lines;
}

std::vector<std::string> names_of(const probes::FunctionGroups &groups) {
    std::vector<std::string> names;
    for (const auto &[name, unused] : groups) {
        names.push_back(name);
    }
    return names;
}

}  // namespace

TEST_CASE("every setting of functions is read") {
    const auto functions = good(R"(
functions:
  enabled: false
  attach: multi
  max_calls_per_second: 0
  ring_bytes: 4KiB
  drain_interval: 1s
  max_functions: 65536
  groups:
    own_2:
      libraries: ["libmodel.so*", "/opt/[ab]/server"]
      functions:
        - plain_1
        - "glob_*[[:digit:]]"
        - {name: shown, symbol: _ZN1f1gEv, slow_threshold: none, buckets: [1ns], errors: null,
           arguments: [6], entry_only: false, endings: auto}
        - {name: also_a_symbol, entry_only: true}
        - {symbol: github.com/acme/model.Run}
        - {name: "a::b", symbol: "_ZN1a1bE*"}
      exclude: [glob_0, "glob_1*"]
      slow_threshold: 1500us
      buckets: [250ns, 1us, "2ms", 3s, 4m, 24h]
      errors: errno
      arguments: [2, 1]
      entry_only: false
      endings: exits
)");
    CHECK_FALSE(functions.enabled);
    CHECK(functions.attach == ebpf::Attach::multi);
    CHECK(functions.max_calls_per_second == 0);
    CHECK(functions.ring_bytes == 4096);
    CHECK(functions.drain_interval == 1s);
    CHECK(functions.max_functions == 65536);
    FunctionGroup expected;
    expected.libraries = {"libmodel.so*", "/opt/[ab]/server"};
    expected.functions = {
        {.symbol = "plain_1"},
        {.symbol = "glob_*[[:digit:]]", .is_glob = true},
        {.symbol = "_ZN1f1gEv",
         .name = "shown",
         .overrides = {.slow_threshold = std::optional<std::chrono::nanoseconds>(),
                       .buckets = {{1ns}},
                       .errors = ErrorKind::null,
                       .arguments = {{6}},
                       .entry_only = false,
                       .endings = ebpf::Endings::automatic}},
        {.symbol = "also_a_symbol",
         .overrides = {.slow_threshold = {},
                       .buckets = {},
                       .errors = {},
                       .arguments = {},
                       .entry_only = true,
                       .endings = {}}},
        {.symbol = "github.com/acme/model.Run"},
        {.symbol = "_ZN1a1bE*", .is_glob = true, .name = "a::b"},
    };
    expected.exclude = {"glob_0", "glob_1*"};
    expected.options = {.slow_threshold = 1500us,
                        .buckets = {250ns, 1us, 2ms, 3s, 4min, 24h},
                        .errors = ErrorKind::errno_value,
                        .arguments = {2, 1},
                        .entry_only = false,
                        .endings = ebpf::Endings::exits};
    CHECK(functions.groups.at("own_2") == expected);
    CHECK(names_of(functions.groups) == std::vector<std::string>{"cublas", "cuda", "cudnn", "java",
                                                                 "libtorch", "nccl", "own_2",
                                                                 "python"});
}

TEST_CASE("the shipped config.yaml names every setting of functions and of each group") {
    const auto lines = shipped_lines();
    const auto times = [&](const std::string &start) {
        return std::count_if(lines.begin(), lines.end(),
                             [&](const std::string &line) { return line.starts_with(start); });
    };
    for (const std::string key : {"enabled", "attach", "max_calls_per_second", "ring_bytes",
                                  "drain_interval", "max_functions", "slow_calls", "groups"}) {
        CHECK(times("  " + key + ":") == 1);
    }
    for (const std::string key : {"enabled", "libraries", "functions", "exclude", "slow_threshold",
                                  "buckets", "errors", "arguments", "entry_only", "endings"}) {
        CHECK(times("      " + key + ":") == (key == "functions" ? 6 : 7));
    }
}

TEST_CASE("the example of a group of one's own in config.yaml is one") {
    std::string text = "functions:\n groups:\n";
    for (const std::string &line : shipped_lines()) {
        constexpr std::string_view kExample = "  #   ";
        text += line.starts_with(kExample) ? line.substr(kExample.size() - 2) + "\n" : "";
    }
    const auto groups = good(text).groups;
    REQUIRE(groups.contains("custom"));
    CHECK(groups.at("custom").functions.size() == 3);
    CHECK(groups.at("custom").options.errors == ErrorKind::errno_value);
}

TEST_CASE("a group of one's own begins with little") {
    const FunctionGroup own = group("");
    CHECK(own.enabled);
    CHECK(own.options == probes::FunctionOptions{});
    CHECK_FALSE(own.options.slow_threshold);
    CHECK(own.options.errors == ErrorKind::none);
    CHECK(own.options.buckets == probes::default_buckets());
    CHECK(own.options.buckets.size() == 12);
    // Off, it may be as unfinished as it likes.
    CHECK_FALSE(good("functions: {groups: {own: {enabled: false}}}").groups.at("own").enabled);
}

TEST_CASE("a group that ships is changed key by key") {
    const auto shipped = probes::shipped_function_groups();
    for (const std::string text :
         {"functions:", "functions: {}", "functions: {groups: }", "functions: {groups: {}}",
          "functions: {groups: {nccl: {}}}", "functions: {groups: {nccl: {enabled: true}}}"}) {
        INFO(text);
        CHECK(good(text).groups == shipped);
    }
    auto expected = shipped;
    expected.at("nccl").enabled = false;
    CHECK(good("functions: {groups: {nccl: {enabled: false}}}").groups == expected);

    expected = shipped;
    expected.at("nccl").options.slow_threshold.reset();
    expected.at("nccl").options.errors = ErrorKind::nonzero;
    expected.at("nccl").exclude = {"ncclReduce"};
    expected.at("cuda").functions = {{.symbol = "cudaProfilerStart"}};
    const auto groups = good(R"(functions:
  groups:
    nccl: {slow_threshold: none, errors: nonzero, exclude: [ncclReduce]}
    cuda: {functions: [cudaProfilerStart]}
)")
                            .groups;
    CHECK(groups == expected);
    // What single functions say of themselves stays, too.
    const FunctionGroup &nccl = groups.at("nccl");
    const auto slow_threshold_of = [&](std::string_view symbol) {
        for (const FunctionPattern &pattern : nccl.functions) {
            if (pattern.symbol == symbol) {
                return probes::options_of(nccl, pattern).slow_threshold;
            }
        }
        FAIL(symbol);
        return std::optional<std::chrono::nanoseconds>();
    };
    CHECK(slow_threshold_of("ncclAllReduce") == std::nullopt);
    CHECK(slow_threshold_of("ncclCommInitRank*") == 30s);
}

TEST_CASE("a function's own options go before the group's") {
    FunctionGroup own = group("slow_threshold: 5ms, errors: errno, arguments: [1]");
    CHECK(probes::options_of(own, own.functions.front()) == own.options);
    own.functions.front() = function("{symbol: f, slow_threshold: none, arguments: []}");
    const auto options = probes::options_of(own, own.functions.front());
    CHECK_FALSE(options.slow_threshold);
    CHECK(options.arguments.empty());
    CHECK(options.errors == ErrorKind::errno_value);
    CHECK(options.buckets == own.options.buckets);
    // A group may count entries only, but for some of its functions.
    CHECK(good("functions: {groups: {own: {libraries: [a], entry_only: true, errors: errno, "
               "slow_threshold: 1s, functions: [f, {symbol: g, entry_only: false}]}}}")
              .groups.at("own")
              .options.entry_only);
}

TEST_CASE("a name that only repeats the symbol is no name") {
    CHECK(function("f") == function("{symbol: f}"));
    CHECK(function("f") == function("{name: f}"));
    CHECK(function("f") == function("{name: f, symbol: f}"));
    CHECK(function("'f*'") == function("{name: 'f*'}"));
    CHECK(function("{name: n, symbol: f}").name == "n");
    CHECK(function("{name: \"\xC3\xA4 {b}\", symbol: f}").name == "\xC3\xA4 {b}");
}

TEST_CASE("each kind of error has its name") {
    for (const auto &[name, kind] : probes::error_kinds) {
        CHECK(probes::to_text(kind) == name);
        CHECK(group("errors: " + std::string(name)).options.errors == kind);
        CHECK(group("errors: '" + std::string(name) + "'").options.errors == kind);
    }
    // YAML takes it for no value; one that is really missing is none of the kinds.
    for (const std::string text :
         {"errors: null ", "errors:\n null,", "errors: null # pointer\n", "errors: null\r\n"}) {
        CHECK(group(text).options.errors == ErrorKind::null);
    }
}

TEST_CASE("the largest configuration is read") {
    std::string text = "functions:\n  groups:\n";
    for (int i = 0; i < 57; ++i) {
        text += "    g" + std::to_string(i) + ": {libraries: [a], functions: [f]}\n";
    }
    CHECK(good(text).groups.size() == probes::max_function_groups);
    text = "functions: {groups: {own: {libraries: [a], functions: [";
    for (int i = 0; i < 10'000; ++i) {
        text += "{symbol: f" + std::to_string(i) + ", slow_threshold: 1s}, ";
    }
    CHECK(good(text + "]}}}").groups.at("own").functions.size() == 10'000);
    const std::string symbol(probes::max_symbol_bytes, 'f');
    CHECK(function(symbol).symbol == symbol);
    CHECK(function("{symbol: f, name: " + std::string(128, 'n') + "}").name.size() == 128);
}

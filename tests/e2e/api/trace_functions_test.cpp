// `gpusnoop_exporter trace functions` on real processes: its lines against what the functions
// counted of themselves.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/harness/calls_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/trace.h"

using namespace harness;
using nlohmann::json;

namespace {

// Keeps the library in use, so that it is attached to when the test begins.
struct Holder {
    Process holder{{standin("calls"), "--iterations", "0", "--hold", "--name", "holder"}};

    Holder() { holder.wait_for_output("holding"); }
};

class FunctionTrace : Holder, public Trace {
public:
    explicit FunctionTrace(const std::string &config, const std::vector<std::string> &arguments)
        : Trace("functions", config, arguments) {}
};

CallsTruth run_mix(const std::string &comm) {
    const Finished finished = run(
        {standin("calls"), "--name", comm, "--threads", "4", "--iterations", "400", "--seed", "7"});
    REQUIRE(finished.code == 0);
    return parse_calls(finished.output);
}

std::map<std::string, std::vector<json>> by_function(const std::vector<json> &calls,
                                                     const std::string &comm) {
    std::map<std::string, std::vector<json>> functions;
    for (const json &call : calls) {
        CHECK(call["comm"] == comm);
        CHECK(call["library"] == "libcalls.so.1");
        functions[call["function"]].push_back(call);
    }
    return functions;
}

double seconds_of(const std::vector<json> &calls) {
    double sum = 0;
    for (const json &call : calls) {
        sum += call["duration_seconds"].get<double>();
    }
    return sum;
}

std::map<std::string, std::uint64_t> trace_functions_errors_of(const std::vector<json> &calls) {
    std::map<std::string, std::uint64_t> errors;
    for (const json &call : calls) {
        if (!call["error"].is_null()) {
            errors[call["error"]]++;
        }
    }
    return errors;
}

std::uint64_t word(const json &text) {
    return std::stoull(text.get<std::string>(), nullptr, 16);
}

// Only calls that took 50 ms or longer: as many as the library counted.
void check_slow(const std::vector<json> &calls, const CallsTruth &truth) {
    auto shown = by_function(calls, "traced");
    std::uint64_t all = 0;
    for (const CallsFunction &function : calls_functions()) {
        if (function.at_entry) {
            CHECK(shown[function.name].empty());
            continue;
        }
        const CallsCount &count = truth.at(function.name);
        CAPTURE(function.name);
        CHECK(shown[function.name].size() >= count.slow);
        CHECK(shown[function.name].size() <= count.slow_at_most);
        all += count.slow;
    }
    CHECK(all > 0);
    for (const json &call : calls) {
        CHECK(call["duration_seconds"] >= 0.05);
    }
}

}  // namespace

TEST_CASE("every call of a configured function is a line", "[e2e][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    FunctionTrace trace(calls_config({.mode = mode}), {"--comm=traced"});
    run_mix("untraced");
    const CallsTruth truth = run_mix("traced");
    auto shown = by_function(trace.finish(), "traced");
    for (const CallsFunction &function : calls_functions()) {
        const CallsCount &count = truth.at(function.name);
        const std::vector<json> &calls = shown[function.name];
        CAPTURE(function.name);
        if (function.at_entry) {
            CHECK(calls.size() == count.entered);
            CHECK(std::ranges::all_of(calls, [](const json &call) {
                return call["duration_seconds"].is_null() && call["result"].is_null();
            }));
            continue;
        }
        CHECK(calls.size() == count.returned);
        std::map<std::string, std::uint64_t> errors;
        for (const auto &[code, times] : count.errors) {
            errors[calls_error_name(function.errors, code)] += times;
        }
        CHECK(trace_functions_errors_of(calls) == errors);
        CHECK(seconds_of(calls) * 1e9 >= static_cast<double>(count.inner_ns) * (1 - 1e-6));
        CHECK(seconds_of(calls) * 1e9 <= static_cast<double>(count.outer_ns) * (1 + 1e-6));
    }
}

TEST_CASE("with entries, a call is told when it begins, and both lines have one id", "[e2e]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    FunctionTrace trace(calls_config({.mode = mode}), {"--entries", "--comm=traced"});
    const CallsTruth truth = run_mix("traced");
    std::map<std::string, std::uint64_t> begun;
    std::map<std::string, json> entries;  // by id, of calls that have not ended
    for (const json &line : trace.finish()) {
        const std::string id = line["id"];
        const std::string function = line["function"];
        if (line["event"] == "entry") {
            begun[function]++;
            CHECK(entries.emplace(id, line).second);
            CHECK(line["duration_seconds"].is_null());
            CHECK(line["result"].is_null());
            continue;
        }
        CHECK(line["event"] == "call");
        if (line["duration_seconds"].is_null()) {
            CHECK_FALSE(entries.contains(id));  // of those it is one event as ever
            continue;
        }
        // Behind its entry, and of the same call.
        REQUIRE(entries.contains(id));
        const json &entry = entries.at(id);
        for (const char *const member : {"function", "library", "pid", "tid", "comm"}) {
            CHECK(line[member] == entry[member]);
        }
        CHECK(entry["time"] <= line["time"]);
        entries.erase(id);
    }
    CHECK(entries.empty());
    for (const CallsFunction &function : calls_functions()) {
        CAPTURE(function.name);
        CHECK(begun[function.name] == (function.at_entry ? 0 : truth.at(function.name).returned));
    }
}

TEST_CASE("functions that are not configured are traced with their arguments", "[e2e]") {
    require_bpf();
    FunctionTrace trace("functions: {enabled: false}\n",
                        {"--library=libcalls.so*", "--function=calls_eight",
                         "--function=_ZN5calls5plain*", "--function=calls_pl*", "--comm=traced"});
    const CallsTruth truth = run_mix("traced");
    auto shown = by_function(trace.finish(), "traced");
    CHECK(shown.size() == 3);
    for (const std::string function : {"calls_eight", "calls_plain", "calls::plain"}) {
        CAPTURE(function);
        CHECK(shown[function].size() == truth.at(function).returned);
        CHECK(shown[function].size() > 10);
    }
    for (const json &call : shown["calls_eight"]) {
        const std::uint64_t first = word(call["arguments"]["1"]);
        for (std::uint64_t n = 2; n <= 6; n++) {
            CHECK(word(call["arguments"][std::to_string(n)]) == first + n - 1);
        }
        CHECK(word(call["result"]) == 36 * first + 168);
    }
}

TEST_CASE("of configured functions those that are named are traced as configured", "[e2e]") {
    require_bpf();
    const std::string library = GENERATE("", "--library=libcalls.so*");
    std::vector<std::string> arguments{"--function=calls_nccl", "--comm=traced"};
    if (!library.empty()) {
        arguments.push_back(library);
    }
    FunctionTrace trace(calls_config({}), arguments);
    const CallsCount truth = run_mix("traced").at("calls_nccl");
    auto shown = by_function(trace.finish(), "traced");
    CHECK(shown.size() == 1);
    CHECK(shown["calls_nccl"].size() == truth.returned);
    CHECK(trace_functions_errors_of(shown["calls_nccl"]).contains("ncclSystemError"));
    for (const json &call : shown["calls_nccl"]) {
        CHECK(call["arguments"].empty());
    }
}

TEST_CASE("a trace can be of slow calls only", "[e2e]") {
    require_bpf();
    SECTION("by their functions' thresholds") {
        FunctionTrace trace(calls_config({.mode = GENERATE("session", "multi")}),
                            {"--slow", "--comm=traced"});
        const CallsTruth truth = run_mix("traced");
        check_slow(trace.finish(), truth);
    }
    SECTION("by a duration, with stacks") {
        FunctionTrace trace(calls_config({.slow_threshold = ""}),
                            {"--min-duration=50ms", "--stack", "--comm=traced"});
        const CallsTruth truth = run_mix("traced");
        const auto calls = trace.finish();
        check_slow(calls, truth);
        CHECK(std::ranges::all_of(calls, [](const json &call) { return !call["stack"].empty(); }));
    }
    SECTION("no function has a threshold") {
        FunctionTrace trace(calls_config({.slow_threshold = ""}), {"--slow"});
        run_mix("traced");
        CHECK(trace.finish().empty());
        CHECK(trace.process().output().find("functions=0") != std::string::npos);
    }
}

TEST_CASE("a stack leads to the caller of a function", "[e2e]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    FunctionTrace trace(calls_config({.mode = mode}),
                        {"--stack", "--function=*plain", "--comm=traced"});
    // Running until all is looked up.
    Process mix({standin("calls"), "--name", "traced", "--iterations", "50", "--hold"});
    mix.wait_for_output("holding");
    const CallsTruth truth = parse_calls(mix.output());
    const std::uint64_t all = truth.at("calls_plain").returned + truth.at("calls::plain").returned;
    eventually("the trace to write", [&] { return trace.calls().size() == all; });
    for (const json &call : trace.finish()) {
        REQUIRE(call["stack"].size() > 1);
        CHECK(call["thread"] == "traced");
        const std::string module = call["stack"][0]["module"];
        CHECK((module == "calls" || module == "libcalls.so.1"));
        CHECK_FALSE(call["stack"][0]["function"].is_null());
    }
}

TEST_CASE("a trace of functions can be of one process, and so many calls", "[e2e]") {
    require_bpf();
    const std::vector<std::string> command{standin("calls"), "--until-stopped", "--name", "traced"};
    const Process chosen(command);
    // A child of the shell, and so none of ours.
    const Process other({"sh", "-c",
                         "setpriv --pdeathsig KILL '" + standin("calls") +
                             "' --until-stopped --name traced; true"});
    const std::string filter = GENERATE("pid", "ppid");
    FunctionTrace trace(calls_config({.mode = GENERATE("session", "multi")}),
                        {filter == "pid" ? "--pid=" + std::to_string(chosen.pid())
                                         : "--ppid=" + std::to_string(::getpid()),
                         "--count=500"});
    CHECK(trace.process().wait() == 0);
    const auto calls = trace.calls();
    CHECK(calls.size() == 500);
    for (const json &call : calls) {
        CHECK(call["pid"] == chosen.pid());
        CHECK(call["ppid"] == ::getpid());
    }
}

TEST_CASE("lines for people have the calls, too", "[e2e]") {
    require_bpf();
    FunctionTrace trace(calls_config({}), {"--format=text", "--function=calls_plain"});
    const std::string name = "\x1b[31m\xff\n\xC2\x9b";
    const CallsTruth truth = run_mix(name);
    trace.process().signal(SIGTERM);
    CHECK(trace.process().wait() == 0);
    const std::string lines = trace.lines();
    CHECK(static_cast<std::uint64_t>(std::ranges::count(lines, '\n')) ==
          truth.at("calls_plain").returned + 1);
    CHECK(lines.starts_with("TIME (UTC)"));
    CHECK(lines.find(" calls_plain ") != std::string::npos);
    CHECK(lines.find("[31m") != std::string::npos);
    CHECK(lines.find("\xC2\x9b") == std::string::npos);
    CHECK(std::ranges::none_of(lines, [](char c) {
        return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f || c == '\xff';
    }));
}

TEST_CASE("a wrong request for a trace of functions is refused with the reason", "[e2e]") {
    const std::string command = GENERATE("functions", "func");  // its former name
    const auto refused = [&](const std::string &argument) {
        const Finished finished = run({exporter_binary(), "trace", command, argument});
        CHECK(finished.code == 2);
        return finished.output;
    };
    CHECK(refused("--min-duration=fast").find("must be like") != std::string::npos);
    CHECK(refused("--library=lib/x.so").find("neither a file name nor a path") !=
          std::string::npos);
    CHECK(refused("--function=[a").find("has a [ without its ]") != std::string::npos);
    CHECK(refused("--pid=nobody").find("nobody") != std::string::npos);
    const Finished both = run({exporter_binary(), "trace", command, "--entries", "--slow"});
    CHECK(both.code == 2);
    CHECK(both.output.find(" excludes --") != std::string::npos);
}

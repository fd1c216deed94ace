// Single calls of real processes: what is told of slow ones, and what sinks get, against what the
// program did.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/harness/calls_truth.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/harness/json_lines.h"
#include "tests/harness/receiver.h"
#include "tests/probes/functions/reload.h"

using namespace harness;
using Json = nlohmann::json;

namespace {

// What the program prints of a slow call, and what is told of one, as the same text.
using Told = std::vector<std::string>;

Told slow_lines(const std::string &output) {
    Told told;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("slow ")) {
            told.push_back(line);
        }
    }
    REQUIRE(told.size() == 20);
    std::ranges::sort(told);
    return told;
}

std::string argument(const Json &call, int position) {
    const std::string text = call["arguments"][std::to_string(position)];
    const auto value = static_cast<std::int64_t>(std::stoull(text, nullptr, 16));
    // The second is an int, so the upper half of its register is anything.
    return std::to_string(position == 2 ? static_cast<std::int32_t>(value) : value);
}

std::string as_line(const Json &call) {
    std::string line = "slow " + call["function"].get<std::string>() +
                       " thread=" + call["thread"].get<std::string>();
    for (int position = 1; position <= 5; position++) {
        line += " " + std::to_string(position) + "=" + argument(call, position);
    }
    return line;
}

// Those that were to sleep; others can be slow because the machine is.
std::vector<Json> sleeping(const std::vector<Json> &calls) {
    std::vector<Json> those;
    std::ranges::copy_if(calls, std::back_inserter(those),
                         [](const Json &call) { return argument(call, 1) != "0"; });
    return those;
}

Told as_lines(const std::vector<Json> &calls) {
    Told told;
    for (const Json &call : sleeping(calls)) {
        told.push_back(as_line(call));
    }
    std::ranges::sort(told);
    return told;
}

std::vector<Json> functions_slow_document(const Exporter &exporter, const std::string &query) {
    const HttpAnswer answer = http(exporter.port(), "/api/v1/slow_calls" + query);
    REQUIRE(answer.status == 200);
    const Json json = Json::parse(answer.body);
    CHECK(json["left_out"] == 0);
    return json["slow_calls"].get<std::vector<Json>>();
}

// All that are slow, once the stack of each is known.
std::vector<Json> wait_for_slow(const Exporter &exporter, const std::string &comm) {
    std::vector<Json> calls;
    eventually("the stacks of slow calls to be known", [&] {
        const double slow =
            exporter.scrape().sum("gpusnoop_function_slow_calls_total", {{"comm", comm}});
        calls = functions_slow_document(exporter, "?comm=" + comm);
        return slow >= 20 && static_cast<double>(calls.size()) == slow &&
               std::ranges::none_of(calls,
                                    [](const Json &call) { return call["stack"].is_null(); });
    });
    return calls;
}

std::string functions_slow_config(const std::string &mode, const std::string &sinks) {
    return only_groups(mode) + R"(
    sleepers:
      libraries: ["libcalls.so*"]
      slow_threshold: 50ms
      arguments: [1, 2, 3, 4, 5]
      functions:
        - {symbol: calls_sleep, errors: nonzero}
        - {name: "calls::sleep", symbol: _ZN5calls5sleepElllllPl}
        - {symbol: calls_callback, slow_threshold: none, arguments: []}
  slow_calls: {history: 1000, log_per_second: 10000}
)" + sinks;
}

Process functions_slow_hold_library(const Exporter &exporter) {
    Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    return holder;
}

Process run_sleeping(const std::string &comm) {
    Process run({standin("calls"), "--scenario", "sleep", "--hold", "--name", comm});
    run.wait_for_output("holding");
    return run;
}

std::vector<std::string> functions_slow_functions_of(const Json &call) {
    std::vector<std::string> names;
    for (const Json &frame : call["stack"]) {
        // Each is in a file: the kernel's trampoline would not be.
        CHECK(frame["module"].is_string());
        names.push_back(frame["function"].is_string() ? frame["function"] : "");
    }
    return names;
}

// Whether `names` has these, in this order.
bool has_in_order(const std::vector<std::string> &names, const std::vector<std::string> &wanted) {
    auto at = names.begin();
    for (const std::string &one : wanted) {
        at = std::find(at, names.end(), one);
        if (at == names.end()) {
            return false;
        }
    }
    return true;
}

void functions_slow_check_call(const Json &call, pid_t pid, const std::string &comm) {
    INFO(call.dump(1));
    CHECK(call["pid"] == pid);
    CHECK(call["tid"] != pid);
    CHECK(call["comm"] == comm);
    CHECK(call["library"] == "libcalls.so.1");
    CHECK(call["duration_seconds"] >= 0.05);
    const std::vector<std::string> names = functions_slow_functions_of(call);
    REQUIRE_FALSE(names.empty());
    CHECK(names.front() != call["function"]);
    CHECK(call["stack"][0]["module"] == "calls");
    CHECK(has_in_order(names,
                       {"scenario::sleep_inside", "calls_callback", "scenario::sleep_outside"}));
    const bool is_c = call["function"] == "calls_sleep";
    const Json code = is_c ? Json(argument(call, 2)) : Json();
    CHECK(call["error"] == code);
    // Of the other no result is an error, so it may be an address.
    CHECK(call["result"].is_string() == is_c);
}

std::uint64_t entered(const CallsTruth &truth) {
    return truth.at("calls_sleep").entered + truth.at("calls::sleep").entered;
}

}  // namespace

TEST_CASE("slow calls are told with their arguments and who made them, to the page and all sinks",
          "[kernel][core][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    const Receiver unix_receiver((directory / "socket").string());
    const Receiver tcp_receiver(std::uint16_t{0});
    const std::string slow_file = directory / "slow.jsonl";
    const std::string all_file = directory / "all.jsonl";
    const Exporter exporter(functions_slow_config(
        mode, "sinks:\n  - {type: file, path: " + slow_file +
                  ", name: slow}\n  - {type: file, path: " + all_file +
                  ", name: all, events: all}\n  - {type: unix, name: unix, path: " +
                  (directory / "socket").string() +
                  "}\n  - {type: tcp, name: tcp, address: \"127.0.0.1:" +
                  std::to_string(tcp_receiver.port()) + "\"}\n"));
    const Process holder = functions_slow_hold_library(exporter);
    const Process run = run_sleeping("sleeping");
    const Told truth = slow_lines(run.output());

    const std::vector<Json> slow = wait_for_slow(exporter, "sleeping");
    CHECK(as_lines(slow) == truth);
    for (const Json &call : slow) {
        functions_slow_check_call(call, run.pid(), "sleeping");
    }
    CHECK(std::ranges::is_sorted(slow, std::ranges::greater{},
                                 [](const Json &call) { return call["time"]; }));
    const CallsTruth counts = parse_calls(run.output());
    CHECK(slow.size() <=
          counts.at("calls_sleep").slow_at_most + counts.at("calls::sleep").slow_at_most);

    // The same calls, whoever is told.
    Told expected;
    for (Json call : slow) {
        call["event"] = "slow_call";
        expected.push_back(call.dump());
    }
    std::ranges::sort(expected);
    const auto check_same = [&](std::vector<Json> told) {
        Told texts;
        for (const Json &call : told) {
            texts.push_back(call.dump());
        }
        std::ranges::sort(texts);
        CHECK(texts == expected);
    };
    eventually("the sinks to have the slow calls", [&] {
        return json_lines_of_file(slow_file).size() >= slow.size() &&
               unix_receiver.lines().size() >= slow.size() &&
               tcp_receiver.lines().size() >= slow.size();
    });
    check_same(json_lines_of_file(slow_file));
    check_same(parse_lines(unix_receiver.lines()));
    check_same(parse_lines(tcp_receiver.lines()));

    // Each call of each function, with what it was called with.
    const std::uint64_t calls = entered(counts) + counts.at("calls_callback").entered;
    eventually("the sink of all calls to have them",
               [&] { return json_lines_of_file(all_file).size() >= calls; });
    std::map<std::string, std::uint64_t> told;
    for (const Json &call : json_lines_of_file(all_file)) {
        CHECK(call["event"] == "call");
        CHECK(call["comm"] == "sleeping");
        CHECK_FALSE(call.contains("stack"));
        told[call["function"]]++;
        if (call["function"] == "calls_callback") {
            CHECK(call["arguments"].empty());
            continue;
        }
        CHECK(call["arguments"].size() == 5);
        CHECK(argument(call, 5) == "8070450532247928816");
        told["slow"] += call["slow"] == true ? 1 : 0;
    }
    CHECK(told["calls_sleep"] == counts.at("calls_sleep").entered);
    CHECK(told["calls::sleep"] == counts.at("calls::sleep").entered);
    CHECK(told["calls_callback"] == counts.at("calls_callback").entered);
    CHECK(told["slow"] == slow.size());

    const Page page = exporter.scrape();
    for (const std::string sink : {"slow", "unix", "tcp"}) {
        CHECK(page.sum("gpusnoop_sink_events_total", {{"sink", sink}}) ==
              static_cast<double>(slow.size()));
    }
    CHECK(page.sum("gpusnoop_sink_events_total", {{"sink", "all"}}) == static_cast<double>(calls));
    CHECK(page.sum("gpusnoop_sink_events_lost_total") == 0);
    CHECK(page.sum("gpusnoop_slow_call_details_lost_total") == 0);
    check_account_at_rest(exporter);
    std::size_t logged = 0;
    std::istringstream log(exporter.log());
    for (std::string line; std::getline(log, line);) {
        logged += line.find("msg=\"slow call\"") != std::string::npos ? 1 : 0;
    }
    CHECK(logged == slow.size());
}

TEST_CASE("functions that a reload makes slow are told of as well, and others no more",
          "[kernel]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const std::string told = functions_slow_config(mode, "");
    std::string untold = told;
    untold.replace(untold.find("slow_threshold: 50ms"), 20, "slow_threshold: none");
    const Exporter exporter(untold);
    const Process holder = functions_slow_hold_library(exporter);
    const Process before = run_sleeping("before");
    reload(exporter, told);
    const Process during = run_sleeping("during");
    const std::vector<Json> slow = wait_for_slow(exporter, "during");
    CHECK(as_lines(slow) == slow_lines(during.output()));
    for (const Json &call : slow) {
        functions_slow_check_call(call, during.pid(), "during");
    }
    reload(exporter, untold);
    const Process after = run_sleeping("after");
    const CallsTruth truth = parse_calls(after.output());
    (void)exporter.wait_for("gpusnoop_function_calls_total",
                            {{"comm", "after"}, {"function", "calls_sleep"}},
                            static_cast<double>(truth.at("calls_sleep").returned));
    CHECK(functions_slow_document(exporter, "?comm=before").empty());
    CHECK(functions_slow_document(exporter, "?comm=after").empty());
    CHECK(exporter.scrape().sum("gpusnoop_slow_call_details_lost_total") == 0);
}

TEST_CASE("a receiver that comes back gets what happened meanwhile", "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string path = directory / "socket";
    auto receiver = std::make_unique<Receiver>(path);
    const Exporter exporter(
        functions_slow_config("auto", "sinks: [{type: unix, name: unix, path: " + path + "}]\n"));
    const Process holder = functions_slow_hold_library(exporter);
    const Process first = run_sleeping("first");
    const auto before = wait_for_slow(exporter, "first").size();
    eventually("the first events", [&] { return receiver->lines().size() >= before; });
    CHECK(as_lines(parse_lines(receiver->lines())) == slow_lines(first.output()));
    receiver.reset();
    std::filesystem::remove(path);
    eventually("the sink to notice",
               [&] { return exporter.log().find("sink unavailable") != std::string::npos; });

    const Process second = run_sleeping("second");
    const auto meanwhile = wait_for_slow(exporter, "second").size();
    CHECK(exporter.scrape().sum("gpusnoop_sink_events_total") == static_cast<double>(before));
    receiver = std::make_unique<Receiver>(path);
    eventually("the other events", [&] { return receiver->lines().size() >= meanwhile; });
    CHECK(as_lines(parse_lines(receiver->lines())) == slow_lines(second.output()));
    CHECK(receiver->lines().size() == meanwhile);
    CHECK(exporter.scrape().sum("gpusnoop_sink_events_lost_total") == 0);
}

TEST_CASE("slow calls that find no room are counted and shown, without what there was no room for",
          "[kernel]") {
    require_bpf();
    const std::string sink = "sinks: [{type: file, name: full, path: /dev/full}]\n";
    const Exporter exporter(calls_config({.slow_threshold = "1ns"}) +
                            "  slow_calls: {ring_bytes: 4KiB, log_per_second: 1}\n" + sink);
    const Process holder = functions_slow_hold_library(exporter);
    const Finished run = harness::run({standin("calls"), "--scenario", "mix", "--name", "many",
                                       "--threads", "4", "--iterations", "1000"});
    REQUIRE(run.code == 0);
    const CallsTruth truth = parse_calls(run.output);
    const Page page = exporter.wait_for("gpusnoop_function_calls_total", {{"comm", "many"}},
                                        counted_calls(truth));
    double returned = 0;
    for (const CallsFunction &function : calls_functions()) {
        returned += function.at_entry ? 0 : static_cast<double>(truth.at(function.name).returned);
    }
    CHECK(page.sum("gpusnoop_function_slow_calls_total", {{"comm", "many"}}) == returned);
    CHECK(page.sum("gpusnoop_slow_call_details_lost_total", {{"reason", "ring_full"}}) > 0);
    CHECK(page.sum("gpusnoop_slow_calls_not_logged_total") > 0);
    check_account_at_rest(exporter);
    CHECK(functions_slow_document(exporter, "?comm=many").size() == 100);
    // Nobody takes the events: what waits and what is lost is all there is.
    CHECK(page.sum("gpusnoop_sink_events_total", {{"sink", "full"}}) == 0);
}

TEST_CASE("a sink of all calls can have them when they begin, too", "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string file = directory / "calls.jsonl";
    const Exporter exporter(
        functions_slow_config("auto", "sinks:\n  - {type: file, path: " + file +
                                          ", events: all, entries: true, name: entries}\n"));
    const Process holder = functions_slow_hold_library(exporter);
    const Process run = run_sleeping("sleeping");
    const CallsTruth counts = parse_calls(run.output());
    const std::uint64_t calls = entered(counts) + counts.at("calls_callback").entered;
    eventually("the sink to have each call twice",
               [&] { return json_lines_of_file(file).size() >= 2 * calls; });
    std::map<std::string, Json> begun;  // by id
    std::uint64_t ended = 0;
    for (const Json &call : json_lines_of_file(file)) {
        if (call["event"] == "entry") {
            CHECK(begun.emplace(call["id"], call).second);
            continue;
        }
        REQUIRE(begun.contains(call["id"]));
        CHECK(begun.at(call["id"])["function"] == call["function"]);
        CHECK(begun.at(call["id"])["arguments"] == call["arguments"]);
        ended++;
    }
    CHECK(begun.size() == calls);
    CHECK(ended == calls);
    CHECK(exporter.scrape().sum("gpusnoop_sink_events_lost_total", {{"sink", "entries"}}) == 0);
    check_account_at_rest(exporter);
}

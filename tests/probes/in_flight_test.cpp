// Calls that hang, against the program that makes them hang.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/probes/functions/reload.h"

using namespace harness;
using Json = nlohmann::json;

namespace {

constexpr int in_flight_threads = 64;
constexpr int functions = 20;

// A call as the program knows it: it began between the two times.
struct Hang {
    std::string function;
    std::uint64_t after = 0;
    std::uint64_t before = 0;
};

// By thread.
std::map<int, Hang> hangs_of(const std::string &output) {
    std::map<int, Hang> hangs;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string word;
        Hang hang;
        int tid = 0;
        if (!(words >> word) || word != "hang") {
            continue;
        }
        const auto number = [&] {
            words >> word;
            return std::stoull(word.substr(word.find('=') + 1));
        };
        words >> hang.function;
        tid = static_cast<int>(number());
        hang.after = number();
        hang.before = number();
        hangs.emplace(tid, hang);
    }
    REQUIRE(hangs.size() == in_flight_threads);
    return hangs;
}

// The functions probe also follows two of the CUDA probe's functions: each call is shown once.
std::string in_flight_config(const std::string &mode) {
    return "in_flight: {min_age: 1ms}\ncuda: {attach: " + mode + "}\n" + own_groups(mode) + R"(
    hangs:
      libraries: ["libcalls.so*"]
      functions:
        - calls_callback
        - {name: "calls::callback", symbol: "_ZN5calls8callback*"}
    both:
      libraries: ["libcudart.so*"]
      functions: [cudaMalloc, cudaMemset]
)";
}

// Only shows the exporter which libraries there are. It is inside of its call before an exporter
// starts, so that no probe sees the call.
Process in_flight_hold_libraries() {
    Process holder({standin("hangs"), "--threads", "1", "--name", "holder"});
    holder.wait_for_output("hanging");
    return holder;
}

void wait_until_attached(const Exporter &exporter) {
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
}

Json in_flight_page(const Exporter &exporter, const std::string &query) {
    const HttpAnswer answer = http(exporter.port(), "/api/v1/in_flight" + query);
    REQUIRE(answer.status == 200);
    Json json = Json::parse(answer.body);
    CHECK(json["left_out"] == 0);
    return json;
}

std::vector<std::string> in_flight_functions_of(const Json &call) {
    std::vector<std::string> names;
    for (const Json &frame : call["stack"]) {
        names.push_back(frame["function"].is_null() ? "" : frame["function"].get<std::string>());
    }
    return names;
}

// The thread waits in libc, in the call, in the program's own functions.
void check_stack(const Json &call) {
    const auto names = in_flight_functions_of(call);
    INFO(call.dump());
    const auto traced = std::ranges::find(names, call["function"].get<std::string>());
    REQUIRE(traced != names.end());
    CHECK(traced != names.begin());
    CHECK(std::ranges::any_of(traced, names.end(), [](const std::string &name) {
        return name.find("hang_in") != std::string::npos;
    }));
    CHECK(call["state"] == "sleeping");
    const auto kernel = call["kernel_stack"].get<std::vector<std::string>>();
    CHECK(std::ranges::any_of(
        kernel, [](const std::string &name) { return name.find("futex") != std::string::npos; }));
}

// Of these hanging calls, those whose threads are in the list.
std::map<int, Hang> hangs_among(const Json &calls, std::map<int, Hang> hangs) {
    std::erase_if(hangs, [&](const auto &one) {
        return std::ranges::none_of(
            calls, [&](const Json &call) { return call["tid"].get<int>() == one.first; });
    });
    return hangs;
}

void check_calls(const Json &calls, const std::map<int, Hang> &hangs) {
    REQUIRE(calls.size() == hangs.size());
    for (const Json &call : calls) {
        const auto hang = hangs.find(call["tid"].get<int>());
        INFO(call.dump());
        REQUIRE(hang != hangs.end());
        CHECK(call["function"] == hang->second.function);
        const std::string id = call["id"];
        const std::uint64_t began = std::stoull(id.substr(id.find('-') + 1));
        CHECK(hang->second.after <= began);
        CHECK(began <= hang->second.before);
    }
}

// What each probe's account says, too: in flight are the calls of its functions.
void check_accounts(const Exporter &exporter, const std::map<int, Hang> &hangs) {
    double of_cuda = 0;
    double of_functions = 0;
    for (const auto &[tid, hang] : hangs) {
        const bool is_named = hang.function.starts_with("calls");
        const bool is_both = hang.function == "cudaMalloc" || hang.function == "cudaMemset";
        of_cuda += is_named ? 0 : 1;
        of_functions += is_named || is_both ? 1 : 0;
    }
    // Other programs of the machine may make calls now and then.
    eventually("the calls that hang to be in flight, and no others", [&] {
        const Page page = exporter.scrape();
        const auto in_flight = [&](const std::string &probe) {
            return page.sum("gpusnoop_probe_in_flight_calls", {{"probe", probe}});
        };
        return in_flight("cuda") == of_cuda && in_flight("functions") == of_functions;
    });
}

}  // namespace

TEST_CASE("every call that hangs is shown with its age, its function and its stack",
          "[in_flight][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    INFO(mode);
    const Process holder = in_flight_hold_libraries();
    const Exporter exporter(in_flight_config(mode));
    wait_until_attached(exporter);
    Process hanging(
        {standin("hangs"), "--threads", std::to_string(in_flight_threads), "--name", "hangs"});
    hanging.wait_for_output("hanging");
    const auto hangs = hangs_of(hanging.output());
    const Page page =
        exporter.wait_for("gpusnoop_calls_in_flight", {{"comm", "hangs"}}, in_flight_threads);
    CHECK(page.samples("gpusnoop_calls_in_flight", {{"comm", "hangs"}}).size() == functions);
    for (const Sample &sample : page.samples("gpusnoop_calls_in_flight", {{"comm", "hangs"}})) {
        const auto expected = std::ranges::count_if(hangs, [&](const auto &one) {
            return one.second.function == sample.labels.at("function");
        });
        CHECK(sample.value == static_cast<double>(expected));
        CHECK(sample.labels.at("pid") == std::to_string(hanging.pid()));
    }
    const Json calls = in_flight_page(exporter, "?comm=hangs")["in_flight"];
    check_calls(calls, hangs);
    for (const Json &call : calls) {
        check_stack(call);
    }
    // Both probes follow it, each in 64 / 20 threads and the first ones of the rest.
    CHECK(in_flight_page(exporter, "?comm=hangs&function=cudaMalloc")["in_flight"].size() == 4);
    check_accounts(exporter, hangs);
    const Finished traced = run({exporter_binary(), "trace", "--in-flight", "--format=json",
                                 "--address=http://127.0.0.1:" + std::to_string(exporter.port())});
    INFO(traced.output);
    CHECK(traced.code == 0);
    CHECK(count(traced.output, R"("comm":"hangs")") == in_flight_threads);

    hanging.signal(SIGUSR1);
    hanging.wait_for_output("returned");
    const Page after = exporter.wait_for("gpusnoop_calls_in_flight", {{"comm", "hangs"}}, 0);
    CHECK_FALSE(after.has("gpusnoop_oldest_call_seconds", {{"comm", "hangs"}}));
    CHECK(in_flight_page(exporter, "?comm=hangs")["in_flight"].empty());
    CHECK(in_flight_page(exporter, "?comm=hangs")["unreturned"].empty());
    check_account_at_rest(exporter);
}

TEST_CASE("a call that has not returned when its process is killed says so", "[in_flight]") {
    require_bpf();
    const Process holder = in_flight_hold_libraries();
    const Exporter exporter(in_flight_config("auto"));
    wait_until_attached(exporter);
    Process hanging(
        {standin("hangs"), "--threads", std::to_string(in_flight_threads), "--name", "hangs"});
    hanging.wait_for_output("hanging");
    const auto hangs = hangs_of(hanging.output());
    (void)exporter.wait_for("gpusnoop_calls_in_flight", {{"comm", "hangs"}}, in_flight_threads);
    hanging.signal(SIGKILL);
    REQUIRE(hanging.wait() == 128 + SIGKILL);
    Json json;
    std::size_t left_out = 0;  // programs of dying threads
    eventually("all calls to be reported", [&] {
        left_out = static_cast<std::size_t>(left_out_programs(exporter.scrape()));
        json = in_flight_page(exporter, "?comm=hangs");
        return json["unreturned"].size() + left_out >= in_flight_threads;
    });
    CHECK(json["in_flight"].empty());
    CAPTURE(left_out);
    check_calls(json["unreturned"], left_out == 0 ? hangs : hangs_among(json["unreturned"], hangs));
    for (const Json &call : json["unreturned"]) {
        CHECK(call["signal"] == "SIGKILL");
    }
    CHECK_FALSE(exporter.scrape().has("gpusnoop_calls_in_flight", {{"comm", "hangs"}}));
    check_account_at_rest(exporter);
}

TEST_CASE("thousands of calls in flight of a program are all counted, and some are listed",
          "[in_flight]") {
    require_bpf();
    constexpr int threads = 250;
    constexpr int depth = 40;
    const Process holder = in_flight_hold_libraries();
    const Exporter exporter("in_flight: {min_age: 1ms}\n" + own_groups("auto") + R"(
    hangs:
      libraries: ["libcalls.so*"]
      functions:
        - calls_callback
        - {name: "calls::callback", symbol: "_ZN5calls8callback*"}
)");
    wait_until_attached(exporter);
    Process many({standin("hangs"), "--threads", std::to_string(threads), "--depth",
                  std::to_string(depth), "--name", "many"});
    many.wait_for_output("hanging");
    const Labels of_many = {{"comm", "many"}};
    const Page page = exporter.wait_for("gpusnoop_calls_in_flight", of_many, threads * depth);
    // Each thread is in calls of calls_callback and in one of 20 functions, of which it is one.
    const double in_one = threads / 20;
    const double innermost = in_one + (threads % 20 > 18 ? 1 : 0);
    CHECK(
        page.sum("gpusnoop_calls_in_flight", {{"comm", "many"}, {"function", "calls_callback"}}) ==
        threads * (depth - 1) + innermost);
    for (const Sample &sample : page.samples("gpusnoop_oldest_call_seconds", of_many)) {
        CHECK(sample.value > 0);
    }
    const HttpAnswer answer = http(exporter.port(), "/api/v1/in_flight?comm=many");
    REQUIRE(answer.status == 200);
    const Json document = Json::parse(answer.body);
    CHECK(document["in_flight"].size() <= 4'096 + threads);
    CHECK(document["in_flight"].size() + document["left_out"].get<std::size_t>() ==
          threads * depth);
    many.signal(SIGUSR1);
    many.wait_for_output("returned");
    (void)exporter.wait_for("gpusnoop_calls_in_flight", of_many, 0);
    check_account_at_rest(exporter);
}

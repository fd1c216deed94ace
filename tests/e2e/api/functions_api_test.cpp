// /api/v1/functions and the report in the log, against what the functions counted of themselves.
#include <dlfcn.h>
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/e2e/child.h"
#include "tests/harness/calls_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;
using nlohmann::json;

namespace {

constexpr const char *functions_path = "/api/v1/functions";

Process functions_api_hold_library(const Exporter &exporter) {
    Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    holder.wait_for_output("holding");
    return holder;
}

std::vector<std::string> mix(const std::string &comm, const std::string &seed) {
    return {standin("calls"), "--name", comm,     "--threads", "4",
            "--iterations",   "300",    "--seed", seed};
}

json get(const Exporter &exporter, const std::string &query = "") {
    const HttpAnswer answer = http(exporter.port(), functions_path + query);
    REQUIRE(answer.status == 200);
    CHECK(answer.headers.find("application/json") != std::string::npos);
    return json::parse(answer.body);
}

// By name, of the library.
std::map<std::string, json> functions_of(const json &document, pid_t pid = 0) {
    std::map<std::string, json> functions;
    for (const json &one : document["functions"]) {
        if (one["library"] == "libcalls.so.1" && (pid == 0 || one["pid"] == pid)) {
            CHECK(functions.emplace(one["function"], one).second);
        }
    }
    return functions;
}

std::uint64_t functions_api_sum(const std::map<std::int64_t, std::uint64_t> &errors) {
    std::uint64_t all = 0;
    for (const auto &[code, count] : errors) {
        all += count;
    }
    return all;
}

std::uint64_t in_buckets(const json &function) {
    std::uint64_t all = 0;
    for (const json &bucket : function["buckets"]) {
        all += bucket[1].get<std::uint64_t>();
    }
    return all;
}

// Each function of the document against the truth.
void check_functions(const std::map<std::string, json> &functions, const CallsTruth &truth) {
    for (const CallsFunction &known : calls_functions()) {
        const CallsCount &count = truth.at(known.name);
        const std::uint64_t calls = known.at_entry ? count.entered : count.returned;
        CAPTURE(known.name, calls);
        if (calls == 0) {
            continue;
        }
        REQUIRE(functions.contains(known.name));
        const json &shown = functions.at(known.name);
        CHECK(shown["calls"] == calls);
        if (known.at_entry) {
            CHECK(shown["errors"].is_null());
            CHECK(shown["slow_calls"].is_null());
            CHECK(shown["seconds"].is_null());
            CHECK(shown["buckets"].empty());
            continue;
        }
        if (known.errors == gpusnoop::probes::ErrorKind::none) {
            CHECK(shown["errors"].is_null());
        } else {
            CHECK(shown["errors"] == functions_api_sum(count.errors));
        }
        CHECK(shown["slow_calls"] >= count.slow);
        CHECK(shown["slow_calls"] <= count.slow_at_most);
        CHECK(in_buckets(shown) == calls);
        const double seconds = shown["seconds"];
        CHECK(seconds * 1e9 >= static_cast<double>(count.inner_ns) * (1 - 1e-9));
        CHECK(seconds * 1e9 <= static_cast<double>(count.outer_ns) * (1 + 1e-9));
        CHECK(shown["longest_seconds"] <= seconds);
    }
}

std::string with_report(const std::string &config) {
    const std::string block = "functions:\n";
    const std::size_t at = config.find(block) + block.size();
    return config.substr(0, at) + "  report: {interval: 1s, rows: 100}\n" + config.substr(at);
}

// The value of a field of a line of the log.
std::string field(const std::string &line, const std::string &key) {
    const std::string begin = " " + key + "=";
    const std::size_t at = line.find(begin);
    if (at == std::string::npos) {
        return "";
    }
    const std::size_t from = at + begin.size();
    return line[from] == '"' ? line.substr(from + 1, line.find('"', from + 1) - from - 1)
                             : line.substr(from, line.find(' ', from) - from);
}

// All reports together, by function: the sum of a field.
std::map<std::string, std::uint64_t> reported(const std::string &log, const std::string &message,
                                              const std::string &key) {
    std::map<std::string, std::uint64_t> sums;
    std::istringstream lines(log.substr(0, log.rfind('\n') + 1));
    for (std::string line; std::getline(lines, line);) {
        if (line.find("msg=\"" + message + "\"") != std::string::npos) {
            const std::string value = field(line, key);
            sums[field(line, "function")] += value.empty() ? 0 : std::stoull(value);
        }
    }
    return sums;
}

}  // namespace

TEST_CASE("the functions page says what each function and process did", "[e2e]") {
    require_bpf();
    const Exporter exporter(calls_config({}));
    Process holder = functions_api_hold_library(exporter);
    const CallsTruth ended = parse_calls(run(mix("ended", "1")).output);
    auto command = mix("held", "2");
    command.emplace_back("--hold");
    Process held(command);
    held.wait_for_output("holding");
    const CallsTruth running = parse_calls(held.output());
    const CallsTruth holding = parse_calls(holder.output());
    const CallsTruth all = ended + running + holding;
    (void)exporter.wait_for("gpusnoop_function_calls_total", {{"library", "libcalls.so.1"}},
                            counted_calls(all));
    const json document = get(exporter);
    check_functions(functions_of(document), all);
    CHECK(document["truncated"] == false);
    CHECK(document["elapsed_seconds"] > 0);
    check_functions(functions_of(get(exporter, "?by=process"), held.pid()), running);

    const json one = get(exporter, "?function=calls_stat*&limit=1&sort=errors");
    REQUIRE(one["functions"].size() == 1);
    CHECK(one["functions"][0]["function"] == "calls_status");
    // What has ended stays in the sums, and is no process.
    holder.signal(SIGTERM);
    held.signal(SIGTERM);
    CHECK(held.wait() == 0);
    eventually("the end of the processes to be seen",
               [&] { return get(exporter)["processes"] == 0; });
    check_functions(functions_of(get(exporter)), all);
    CHECK(get(exporter, "?by=process")["functions"].empty());
}

TEST_CASE("wrong questions to the functions page are answered in a sentence", "[e2e]") {
    require_bpf();
    const Exporter exporter(only_groups("auto"));
    CHECK(get(exporter)["functions"].empty());
    for (const std::string query :
         {"?sort=name", "?limit=-1", "?limit=1.5", "?function=", "?by=comm", "?pid=1",
          "?sort=calls&sort=max", "?function=%zz"}) {
        INFO(query);
        const HttpAnswer refusal = http(exporter.port(), functions_path + query);
        CHECK(refusal.status == 400);
        CHECK(refusal.body.ends_with('\n'));
        CHECK(std::ranges::count(refusal.body, '\n') == 1);
    }
}

TEST_CASE("the functions page without the probe functions says so", "[e2e]") {
    require_bpf();
    const Exporter exporter("cuda: {enabled: false}\n");
    const HttpAnswer answer = http(exporter.port(), functions_path);
    CHECK(answer.status == 503);
    CHECK(answer.body == "The probe of this page is not up: / says why.\n");
}

TEST_CASE("the reports in the log add up to what the functions did", "[e2e]") {
    require_bpf();
    const Exporter exporter(with_report(calls_config({})));
    const Process holder = functions_api_hold_library(exporter);
    CallsTruth truth = parse_calls(holder.output());
    for (const std::string seed : {"1", "2", "3"}) {
        truth = truth + parse_calls(run(mix("reported", seed)).output);
    }
    const auto sum_of = [&](const std::string &message) {
        std::uint64_t functions_api_sum = 0;
        for (const auto &[name, calls] : reported(exporter.log(), message, "calls")) {
            functions_api_sum += calls;
        }
        return functions_api_sum;
    };
    std::uint64_t timed_calls = 0;
    for (const CallsFunction &function : calls_functions()) {
        timed_calls += function.at_entry ? 0 : truth.at(function.name).returned;
    }
    const auto all_calls = static_cast<std::uint64_t>(counted_calls(truth));
    eventually("all calls to be reported: " + exporter.log(), [&] {
        return sum_of("busiest function") >= all_calls && sum_of("slowest function") >= timed_calls;
    });
    const auto calls = reported(exporter.log(), "busiest function", "calls");
    const auto slow = reported(exporter.log(), "busiest function", "slow_calls");
    const auto slowest = reported(exporter.log(), "slowest function", "calls");
    for (const CallsFunction &function : calls_functions()) {
        const CallsCount &count = truth.at(function.name);
        const std::uint64_t expected = function.at_entry ? count.entered : count.returned;
        CAPTURE(function.name);
        CHECK((calls.contains(function.name) ? calls.at(function.name) : 0) == expected);
        if (!function.at_entry && expected > 0) {
            CHECK(slow.at(function.name) >= count.slow);
            CHECK(slow.at(function.name) <= count.slow_at_most);
            CHECK(slowest.at(function.name) == expected);
        }
        CHECK_FALSE((function.at_entry && slowest.contains(function.name)));
    }
    // A call that waits is among the slowest, and is said to take that long.
    std::istringstream lines(exporter.log());
    bool waited = false;
    for (std::string line; std::getline(lines, line);) {
        if (line.find("slowest function") != std::string::npos &&
            field(line, "slow_calls") != "0" && field(line, "function") == "calls_wait") {
            waited = waited || std::stod(field(line, "max_seconds")) >= 0.0499;
        }
    }
    CHECK(waited);
}

// Functions with instructions that the kernel allows no probe on.

#if defined(__x86_64__)
TEST_CASE("a function that the kernel allows no probe on leaves the others of its file counted",
          "[e2e][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    const e2e::Child program([&] {
        void *library = ::dlopen(standin("libodd.so.1").c_str(), RTLD_NOW);
        const auto locked = e2e::function_of<long(long *)>(library, "odd_locked");
        const auto plain = e2e::function_of<long(long)>(library, "odd_plain");
        const auto other = e2e::function_of<long(long)>(library, "odd_other");
        const auto cpp = e2e::function_of<long(long)>(library, "_ZN3odd5plainEl");
        const auto jump = e2e::function_of<long(long)>(library, "_ZN3odd4jumpEl");
        e2e::wait_for_file(directory / "go");
        long sum = 0;
        for (int i = 0; i < 100; i++) {
            sum += locked(&sum) + plain(i) + plain(i) + other(i) + cpp(i) + jump(i);
        }
        write_file(directory / "done", std::to_string(sum));
        e2e::pause_for_ever();
        return 0;
    });
    const Exporter exporter(only_groups(mode) + R"(
    odd:
      libraries: ["libodd.so*"]
      functions: ["odd_*", {name: "odd::plain", symbol: _ZN3odd5plainEl}, {name: "odd::jump", symbol: _ZN3odd4jumpEl}]
)");
    exporter.wait_until_attached_to(standin("libodd.so.1"));
    write_file(directory / "go", "");
    const std::string calls = "gpusnoop_function_calls_total";
    (void)exporter.wait_for(calls, {{"function", "odd_plain"}}, 200);
    (void)exporter.wait_for(calls, {{"function", "odd_other"}}, 100);
    (void)exporter.wait_for(calls, {{"function", "odd::plain"}}, 200);  // half of them by odd::jump
    const Page page = exporter.wait_for(calls, {{"function", "odd::jump"}}, 100);
    CHECK_FALSE(page.has(calls, {{"function", "odd_locked"}}));
    CHECK(page.sum("gpusnoop_probe_attached_functions", {{"probe", "functions"}}) == 4);
    CHECK(page.sum("gpusnoop_probe_attach_failures_total", {{"probe", "functions"}}) == 0);
    // Their ends are seen.
    const std::string count = "gpusnoop_function_duration_seconds_count";
    CHECK(page.sum(count, {{"function", "odd_plain"}}) == 200);
    CHECK(page.sum(count, {{"function", "odd::plain"}}) == 200);
    CHECK_FALSE(page.has(count, {{"function", "odd::jump"}}));
    const std::string log = exporter.log();
    CHECK(log.find("functions=odd::jump") != std::string::npos);
    CHECK(log.find("odd_halt") != std::string::npos);
    CHECK(log.find("odd_locked") != std::string::npos);
    eventually("the program to have made its calls",
               [&] { return std::filesystem::exists(directory / "done"); });
}
#endif

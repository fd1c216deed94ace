// Traced calls as lines: for people and for programs.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "exporter/base/text/text.h"
#include "exporter/trace/lines.h"
#include "exporter/trace/trace.h"

using namespace gpusnoop::trace;
using namespace std::chrono_literals;
using namespace gpusnoop;
using nlohmann::json;

// The options that only some traces have.

TEST_CASE("an option of a trace has the texts that were given for it") {
    constexpr Option flag = {.name = "--flag", .help = ""};
    constexpr Option name = {.name = "--name", .takes = Option::Takes::texts, .help = ""};
    constexpr Option time = {.name = "--time", .takes = Option::Takes::duration, .help = ""};
    Options options;
    for (const Option &option : {flag, name, time}) {
        CHECK_FALSE(options.has(option));
        CHECK(options.texts(option).empty());
        CHECK_FALSE(options.duration_of(option));
    }
    options.given = {{flag.name, {}}, {name.name, {"a", "b"}}, {time.name, {"5m"}}};
    CHECK(options.has(flag));
    CHECK(options.texts(flag).empty());
    CHECK(options.texts(name) == std::vector<std::string>{"a", "b"});
    CHECK(options.duration_of(time) == 5min);
}

namespace {

Event a_launch() {
    Event call;
    call.time_ns = 1'700'000'000'123'456'789;
    call.duration_ns = 12'345;
    call.pid = 100;
    call.tid = 101;
    call.ppid = 99;
    call.comm = "trainer";
    call.script = "a b.py";
    call.container = "abc";
    call.slurm_job_id = "4711";
    call.user = "alice";
    call.kind = "function";
    call.name = "cudaLaunchKernel";
    call.result = "cudaErrorMemoryAllocation";
    call.results = {
        {"api", std::string("runtime")}, {"result", std::int64_t{2}}, {"result_name", call.result}};
    call.details = {
        {"device", std::int64_t{1}}, {"kernel", std::string("scale<float, int>")},
        {"grid", Size3{1, 2, 3}},    {"shared_bytes", std::uint64_t{18'446'744'073'709'551'615U}},
        {"stream", Word{0}},         {"arguments", std::vector<Word>{{0xdeadbeefcafef00d}, {1}}}};
    call.stack = {{0x401000, {"main", "trainer", 18}}, {0x402000, {}}};
    return call;
}

}  // namespace

TEST_CASE("a call as JSON is one line with one object") {
    const std::string line = json_line(a_launch());
    CHECK(line.ends_with('\n'));
    CHECK(std::ranges::count(line, '\n') == 1);
    const json call = json::parse(line);
    CHECK(call["time"] == "2023-11-14T22:13:20.123456789Z");
    CHECK(call["duration_ns"] == 12'345);
    CHECK(call["pid"] == 100);
    CHECK(call["tid"] == 101);
    CHECK(call["ppid"] == 99);
    CHECK(call["comm"] == "trainer");
    CHECK(call["script"] == "a b.py");
    CHECK(call["container_id"] == "abc");
    CHECK(call["slurm_job_id"] == "4711");
    CHECK(call["user"] == "alice");
    CHECK(call["function"] == "cudaLaunchKernel");
    CHECK(call["api"] == "runtime");
    CHECK(call["result"] == 2);
    CHECK(call["result_name"] == "cudaErrorMemoryAllocation");
    CHECK(call["device"] == 1);
    CHECK(call["kernel"] == "scale<float, int>");
    CHECK(call["grid"] == json({1, 2, 3}));
    CHECK(call["shared_bytes"].get<std::uint64_t>() == 18'446'744'073'709'551'615U);
    CHECK(call["stream"] == "0x0");
    CHECK(call["arguments"] == json({"0xdeadbeefcafef00d", "0x1"}));
    CHECK(call["stack"][0] == json({{"address", "0x401000"},
                                    {"function", "main"},
                                    {"module", "trainer"},
                                    {"offset", 18}}));
    CHECK(call["stack"][1]["function"].is_null());
    CHECK(call["stack"][1]["offset"].is_null());
}

TEST_CASE("what is not known is null, and what a call has not is not there") {
    Event call = a_launch();
    call.duration_ns.reset();
    call.pid = call.tid = call.ppid = 0;
    call.results = {{"result", Value()}};
    call.details = {{"device", Value()}};
    call.stack.clear();
    const json parsed = json::parse(json_line(call));
    for (const char *const key : {"duration_ns", "pid", "tid", "ppid", "result", "device"}) {
        CAPTURE(key);
        CHECK(parsed.at(key).is_null());
    }
    CHECK_FALSE(parsed.contains("stack"));
    CHECK_FALSE(parsed.contains("kernel"));
    CHECK(text_line(call).find("device") == std::string::npos);
}

TEST_CASE("a call for people is a line of columns under the header") {
    Event call = a_launch();
    const std::string header = text_header("FUNCTION");
    std::string line = text_line(call);
    CHECK(line.starts_with("22:13:20.123456 "));
    const auto under = [&](const std::string &title) { return line.substr(header.find(title)); };
    CHECK(line.substr(0, header.find(" PPID ") + 5).ends_with(" 99"));
    CHECK(under("COMM").starts_with("trainer "));
    CHECK(under("FUNCTION").starts_with("cudaLaunchKernel "));
    CHECK(under("RESULT").starts_with("cudaErrorMemoryAllocation "));
    CHECK(line.find(" 12.3us ") != std::string::npos);
    CHECK(line.find("device=1 kernel=\"scale<float, int>\" grid=1x2x3 "
                    "shared_bytes=18446744073709551615 stream=0x0 "
                    "arguments=(0xdeadbeefcafef00d,0x1) script=\"a b.py\" slurm_job_id=4711\n") !=
          std::string::npos);
    CHECK(line.ends_with("    #0 main+0x12 (trainer)\n    #1 0x402000\n"));
    call.stack.clear();
    CHECK(std::ranges::count(text_line(call), '\n') == 1);
    call.script.clear();
    call.slurm_job_id.clear();
    call.details = {{"arguments", std::vector<Word>{}}};
    CHECK(text_line(call).ends_with("arguments=()\n"));
}

TEST_CASE("nothing that a terminal obeys gets through") {
    CHECK(printable("plain \xC3\xA4", 64) == "plain \xC3\xA4");
    const std::string_view hostile[] = {"\x1b[31mred",
                                        "a\nb",
                                        "a\rb",
                                        "\x7f",
                                        "\xC2\x9b[2J",
                                        "\xE2\x80\xAE"
                                        "evil",
                                        "\xE2\x81\xA6"
                                        "evil",
                                        "\xE2\x80\xA8x",
                                        "\xff\xfe",
                                        "\xC2"};
    for (const std::string_view bytes : hostile) {
        const std::string text = printable(bytes, 64);
        CAPTURE(text);
        CHECK(find_invalid_utf8(text) == std::string::npos);
        CHECK(std::ranges::none_of(
            text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
        CHECK(text.find("\xC2\x9b") == std::string::npos);
        CHECK(text.find("\xE2\x80\xAE") == std::string::npos);
        CHECK(text.find("\xE2\x81\xA6") == std::string::npos);
        CHECK(text.find("\xE2\x80\xA8") == std::string::npos);
        CHECK(text != bytes);
    }
    CHECK(printable(std::string(1000, 'x'), 64).size() == 64);
}

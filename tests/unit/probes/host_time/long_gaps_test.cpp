// /api/v1/launch_gaps, and the lines of `trace gap`.
#include "exporter/probes/host_time/gaps/gaps.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/host_time/trace.h"
#include "exporter/symbols/names/syscall_names.h"
#include "exporter/trace/lines.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

LongGap long_gaps_gap_of(std::uint32_t pid, std::chrono::milliseconds length,
                         std::chrono::seconds began = 10s) {
    LongGap gap{.began = began,
                .record = {},
                .process = {.comm = "p" + std::to_string(pid),
                            .script = "train.py",
                            .container = "",
                            .slurm_job_id = "",
                            .user = ""},
                .gpu = "1",
                .before = "cudaDeviceSynchronize",
                .after = "cudaLaunchKernel"};
    gap.record.process.tgid = pid;
    gap.record.tid = pid + 1;
    gap.record.ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(length).count());
    gap.record.drain = HOST_DRAIN_device;
    gap.record.state_ns[HOST_STATE_running] = gap.record.ns / 4;
    gap.record.state_ns[HOST_GAP_CUDA_CALL] = gap.record.ns / 4 * 3;
    std::strcpy(gap.record.comm, "w\xff");
    return gap;
}

Result<ApiResponse> ask(std::vector<LongGap> gaps, const QueryParameters &parameters = {}) {
    return gaps_page(std::move(gaps)).write(parameters);
}

std::vector<std::uint32_t> pids(const std::vector<LongGap> &gaps,
                                const QueryParameters &parameters = {}) {
    std::vector<std::uint32_t> found;
    const Json answer = Json::parse(ask(gaps, parameters)->text);
    for (const Json &gap : answer.at("launch_gaps")) {
        found.push_back(gap.at("pid"));
    }
    return found;
}

using Pids = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("a sink's line is what the document shows, and says first what it is") {
    const LongGap gap = long_gaps_gap_of(1, 20ms);
    const std::string line = event_line(gap);
    CHECK(line.starts_with(R"({"event":"launch_gap","began":)"));
    CHECK(line.find('\n') == std::string::npos);
    Json of_sink = Json::parse(line);
    of_sink.erase("event");
    CHECK(of_sink == Json::parse(ask({gap})->text).at("launch_gaps").at(0));
}

TEST_CASE("the longest gaps are kept, and for an hour") {
    LongGapHistory history(3);
    history.add(long_gaps_gap_of(1, 20ms));
    history.add(long_gaps_gap_of(2, 10ms));
    history.add(long_gaps_gap_of(3, 30ms, 100s));
    CHECK(pids(history.list()) == Pids{3, 1, 2});
    history.add(long_gaps_gap_of(4, 5ms));
    history.add(long_gaps_gap_of(5, 10ms));
    CHECK(pids(history.list()) == Pids{3, 1, 2});
    history.add(long_gaps_gap_of(6, 25ms, 110s));
    CHECK(pids(history.list()) == Pids{3, 6, 1});
    history.forget_old(1h + 10s);
    CHECK(pids(history.list()) == Pids{3, 6, 1});
    history.forget_old(1h + 101s);
    CHECK(pids(history.list()) == Pids{6});
    history.add(long_gaps_gap_of(7, 1ms));
    CHECK(pids(history.list()) == Pids{6, 7});

    LongGapHistory nothing(0);
    nothing.add(long_gaps_gap_of(1, 20ms));
    CHECK(nothing.list().empty());
}

TEST_CASE("a gap is in the document with its thread, its calls and its states") {
    auto cut = long_gaps_gap_of(8, 1ms);
    cut.before = {};
    cut.gpu = "";
    const Json answer = Json::parse(ask({long_gaps_gap_of(7, 20ms), cut})->text);
    REQUIRE(answer.at("launch_gaps").size() == 2);
    CHECK(answer.at("launch_gaps").at(0) ==
          Json{{"began", "1970-01-01T00:00:10.000000000Z"},
               {"seconds", 0.02},
               {"pid", 7},
               {"tid", 8},
               {"comm", "p7"},
               {"script", "train.py"},
               {"container_id", ""},
               {"slurm_job_id", ""},
               {"user", ""},
               {"thread", "w\xef\xbf\xbd"},
               {"gpu", "1"},
               {"drain", "device"},
               {"before", "cudaDeviceSynchronize"},
               {"after", "cudaLaunchKernel"},
               {"states", {{"cuda_call", 0.015}, {"running", 0.005}}},
               {"longest", nullptr}});
    CHECK(answer.at("launch_gaps").at(1).at("before").is_null());
    CHECK(answer.at("launch_gaps").at(1).at("gpu").is_null());
    CHECK(answer.at("left_out") == 0);
}

TEST_CASE("a gap's longest block has its system call and its file system") {
    const auto longest = [](enum host_state state, std::uint16_t call, std::uint32_t filesystem) {
        auto gap = long_gaps_gap_of(7, 20ms);
        gap.record.longest = {4'000'000, static_cast<std::uint16_t>(state), call, filesystem, -1,
                              0};
        ProcessIdentity process;
        const Json line = Json::parse(trace::json_line(trace::event_of(gap, process)));
        Json json = Json::parse(ask({gap})->text).at("launch_gaps").at(0).at("longest");
        CHECK(json.at("call") == line.at("longest_call"));
        CHECK(json.at("filesystem") == line.at("longest_filesystem"));
        CHECK(line.at("longest") == Json{{json.at("state"), 4'000'000}});
        return json;
    };
    const auto number = [](const char *name) {
        return static_cast<std::uint16_t>(syscall_number(name).value());
    };
    CHECK(longest(HOST_STATE_file, number("pread64"), 0x6969) ==
          Json{{"seconds", 0.004}, {"state", "file"}, {"call", "pread64"}, {"filesystem", "nfs"}});
    CHECK(longest(HOST_STATE_file, number("openat"), 0).at("filesystem") == "unknown");
    CHECK(longest(HOST_STATE_pipe, number("read"), 0) ==
          Json{{"seconds", 0.004}, {"state", "pipe"}, {"call", "read"}, {"filesystem", nullptr}});
    CHECK(longest(HOST_STATE_page_fault, HOST_NO_CALL, 0).at("call").is_null());
    CHECK(longest(HOST_STATE_other, 511, 0).at("call").is_null());
}

TEST_CASE("gaps are asked for by process, name, length and number") {
    const std::vector<LongGap> all = {long_gaps_gap_of(7, 30ms), long_gaps_gap_of(8, 20ms),
                                      long_gaps_gap_of(7, 10ms)};
    CHECK(pids(all, {{"pid", "7"}}) == Pids{7, 7});
    CHECK(pids(all, {{"comm", "*8"}}) == Pids{8});
    CHECK(pids(all, {{"min", "20ms"}}) == Pids{7, 8});
    CHECK(pids(all, {{"min", "20001us"}}) == Pids{7});
    CHECK(pids(all, {{"limit", "1"}}) == Pids{7});
    CHECK(Json::parse(ask(all, {{"limit", "1"}})->text).at("left_out") == 2);
    CHECK(Json::parse(ask(all, {{"limit", "0"}})->text).at("left_out") == 3);
    for (const QueryParameters &wrong :
         {QueryParameters{{"pid", "0"}}, QueryParameters{{"min", "20"}},
          QueryParameters{{"limit", "x"}}, QueryParameters{{"state", "pipe"}}}) {
        CHECK_FALSE(ask(all, wrong));
    }
}

TEST_CASE("trace gap has a line for a gap, with all of it") {
    ProcessIdentity process;
    process.comm = "python3";
    process.ppid = 5;
    const trace::Event event = trace::event_of(long_gaps_gap_of(7, 20ms), process);
    const Json line = Json::parse(trace::json_line(event));
    CHECK(line.at("time") == "1970-01-01T00:00:10.000000000Z");
    CHECK(line.at("duration_ns") == 20'000'000);
    CHECK(line.at("pid") == 7);
    CHECK(line.at("tid") == 8);
    CHECK(line.at("ppid") == 5);
    CHECK(line.at("comm") == "python3");
    CHECK(line.at("after") == "cudaLaunchKernel");
    CHECK(line.at("before") == "cudaDeviceSynchronize");
    CHECK(line.at("gpu") == "1");
    CHECK(line.at("drain") == "device");
    CHECK(line.at("states") == Json{{"cuda_call", 15'000'000}, {"running", 5'000'000}});
    CHECK(trace::text_line(event).find(
              " cudaLaunchKernel           20.000ms -                        "
              "before=cudaDeviceSynchronize gpu=1 drain=device thread=w\xef\xbf\xbd "
              "states=cuda_call:15.000ms,running:5.000ms\n") != std::string::npos);
    auto cut = long_gaps_gap_of(7, 20ms);
    cut.before = {};
    cut.gpu = "";
    CHECK(Json::parse(trace::json_line(trace::event_of(cut, process))).at("before").is_null());
}

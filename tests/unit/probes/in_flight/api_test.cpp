// /api/v1/in_flight, without stacks.
#include "exporter/probes/in_flight/api.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "exporter/probes/frame/api/list_page.h"
#include "tests/unit/probes/in_flight/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

constexpr std::uint64_t api_second_ns = 1'000'000'000;

InFlightState state() {
    InFlightState state;
    state.now = 100s;
    state.to_realtime = 1'772'357'400s;  // 2026-03-01 09:30
    state.min_age = 1'500ms;
    OpenCall reduce = call_in_flight("ncclAllReduce", 7, 10 * api_second_ns);
    reduce.library = "libnccl.so.2";
    reduce.arguments = {{3, 0x100}};
    reduce.nccl =
        NcclPlace{.communicator = 2, .hash = "3f2a9c01", .rank = 5, .nranks = {}, .sequence = 17};
    OpenCall copy = call_in_flight("cudaMemcpy", 8, 20 * api_second_ns);
    copy.pid = 43;
    copy.comm = "other";
    copy.gpu = "3";
    state.open.calls = {reduce, copy};
    UnreturnedCall &killed = state.unreturned.emplace_back();
    static_cast<OpenCall &>(killed) = call_in_flight("cudaFree", 9, 5 * api_second_ns);
    killed.ended_ns = 8 * api_second_ns;
    killed.signal = 9;
    return state;
}

Json document(const QueryParameters &parameters = {}, InFlightState of = state()) {
    const auto written = in_flight_page(std::move(of)).write(parameters);
    REQUIRE(written);
    CHECK(written->content_type == "application/json");
    return Json::parse(written->text);
}

std::vector<std::string> functions(const Json &calls) {
    std::vector<std::string> names;
    for (const Json &call : calls) {
        names.push_back(call["function"]);
    }
    return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a call in flight is shown with its age, its thread and what it is about") {
    const Json json = document();
    CHECK(json["min_age_seconds"] == 1.5);
    CHECK(json["left_out"] == 0);
    CHECK(json["truncated"] == false);
    REQUIRE(functions(json["in_flight"]) == Names{"ncclAllReduce", "cudaMemcpy"});
    const Json &reduce = json["in_flight"][0];
    CHECK(reduce["id"] == "7-10000000000");
    CHECK(reduce["began"] == "2026-03-01T09:30:10.000000000Z");
    CHECK(reduce["age_seconds"] == 90);
    CHECK(reduce["library"] == "libnccl.so.2");
    CHECK(reduce["pid"] == 42);
    CHECK(reduce["tid"] == 7);
    CHECK(reduce["comm"] == "python3");
    CHECK(reduce["script"] == "train.py");
    CHECK(reduce["thread"] == "worker");
    CHECK(reduce["arguments"] == Json{{"3", "0x100"}});
    CHECK(reduce["gpu"].is_null());
    CHECK(reduce["nccl"] == Json{{"communicator", 2},
                                 {"hash", "3f2a9c01"},
                                 {"rank", 5},
                                 {"nranks", nullptr},
                                 {"sequence", 17}});
    CHECK(reduce["stack"].is_null());
    CHECK(reduce["kernel_stack"].is_null());
    CHECK(json["in_flight"][1]["gpu"] == "3");
    CHECK(json["in_flight"][1]["nccl"].is_null());
}

TEST_CASE("a call that never returned is shown with how its thread ended") {
    const Json json = document();
    REQUIRE(functions(json["unreturned"]) == Names{"cudaFree"});
    const Json &killed = json["unreturned"][0];
    CHECK(killed["signal"] == "SIGKILL");
    CHECK(killed["age_seconds"] == 3);
    CHECK(killed["ended"] == "2026-03-01T09:30:08.000000000Z");
    InFlightState exited = state();
    exited.unreturned[0].signal = 0;
    CHECK(document({}, exited)["unreturned"][0]["signal"].is_null());
    exited.unreturned[0].signal = 120;
    CHECK(document({}, exited)["unreturned"][0]["signal"] == "120");
}

TEST_CASE("calls in flight are chosen by function, library and process") {
    CHECK(functions(document({{"function", "cudaMemcpy"}})["in_flight"]) == Names{"cudaMemcpy"});
    CHECK(functions(document({{"library", "libnccl.so.2"}})["in_flight"]) ==
          Names{"ncclAllReduce"});
    CHECK(functions(document({{"comm", "other"}})["in_flight"]) == Names{"cudaMemcpy"});
    CHECK(functions(document({{"function", "*Reduce"}})["in_flight"]) == Names{"ncclAllReduce"});
    CHECK(functions(document({{"pid", "42"}})["in_flight"]) == Names{"ncclAllReduce"});
    CHECK(document({{"pid", "43"}})["unreturned"].empty());
    const Json limited = document({{"limit", "1"}});
    CHECK(functions(limited["in_flight"]) == Names{"ncclAllReduce"});
    CHECK(limited["left_out"] == 1);
    CHECK(limited["truncated"] == true);
    const auto problem = [&](const QueryParameters &parameters) {
        const auto written = in_flight_page(state()).write(parameters);
        REQUIRE_FALSE(written);
        return written.error().message;
    };
    CHECK(problem({{"pid", "0"}}) == "pid must be a number from 1 to 4294967295, not \"0\"");
    CHECK(problem({{"functions", "x"}}) ==
          "\"functions\" is not a parameter of this page; it has function, library, pid, comm, "
          "script "
          "and limit");
}

TEST_CASE("calls that are not listed are left out, if the query asks for them") {
    InFlightState many = state();
    MoreCalls &more = many.open.more.emplace_back();
    more.comm = "python3";
    more.pid = 42;
    more.function = "ncclAllReduce";
    more.count = 75'904;
    CHECK(document({}, many)["left_out"] == 75'904);
    CHECK(document({}, many)["truncated"] == true);
    CHECK(document({{"pid", "42"}}, many)["left_out"] == 75'904);
    CHECK(document({{"pid", "43"}}, many)["left_out"] == 0);
    CHECK(document({{"function", "cudaMemcpy"}}, many)["truncated"] == false);
}

TEST_CASE("a document of calls in flight has its limit, and says what it leaves out", "[bulk]") {
    InFlightState many = state();
    many.open.calls.assign(50'000, call_in_flight(std::string(100, 'f'), 7, api_second_ns));
    const auto written = in_flight_page(many).write({});
    REQUIRE(written);
    CHECK(written->text.size() <= max_list_page_bytes);
    const Json json = Json::parse(written->text);
    CHECK(json["truncated"] == true);
    CHECK(json["in_flight"].size() + json["unreturned"].size() +
              json["left_out"].get<std::size_t>() ==
          50'001);
}

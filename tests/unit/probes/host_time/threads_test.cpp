// /api/v1/threads.
#include "exporter/probes/host_time/threads.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/host_time/aggregator.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using Json = nlohmann::json;

namespace {

host_thread_record host_time_thread_of(std::uint32_t tgid, std::uint32_t tid, std::uint64_t since,
                                       std::uint64_t wall) {
    host_thread_record record{};
    record.process = {.since_ns = 5, .tgid = tgid, .reserved = 0};
    record.since_ns = since;
    record.tid = tid;
    record.times.wall_ns = wall;
    record.cpu = 1;
    std::strcpy(record.comm, "w\xff");
    return record;
}

class Node {
public:
    void read(std::vector<host_thread_record> threads,
              const std::vector<host_thread_record> &ended = {},
              std::vector<host_waits_record> workers = {}) {
        HostTimeReading reading;
        for (const host_thread_record &thread : ended) {
            const host_process &process = thread.process;
            reading.past.emplace_back(process, thread.times);
            reading.devices.emplace_back(
                host_device_key{
                    .since_ns = process.since_ns, .tgid = process.tgid, .device = thread.device},
                thread.of_device);
        }
        reading.threads = std::move(threads);
        reading.waits = std::move(workers);
        reading.nodes = {0, 3};
        aggregator_.name_functions([](std::uint16_t number) {
            return std::string_view(number == 3 ? "cudaFree" : "cudaMalloc");
        });
        aggregator_.on_reading(reading);
        threads_.on_reading(reading);
    }
    [[nodiscard]] Result<ApiResponse> ask(const QueryParameters &parameters = {}) const {
        ThreadsState state = threads_state(aggregator_, threads_);
        state.elapsed = std::chrono::milliseconds(2500);
        return threads_page(std::move(state)).write(parameters);
    }
    [[nodiscard]] Json answer(const QueryParameters &parameters = {}) const {
        return Json::parse(ask(parameters)->text);
    }

private:
    HostTimeAggregator aggregator_{{.budget = [](std::string_view) { return 1000; },
                                    .retention = std::chrono::seconds(60),
                                    .look_up =
                                        [](ProcessIdentity &identity) {
                                            identity.comm = "p" + std::to_string(identity.key.tgid);
                                            identity.script = "train.py";
                                            return true;
                                        }}};
    LaunchingThreads threads_;
};

}  // namespace

TEST_CASE("a launching thread is in the document with what it does and what it has done") {
    auto one = host_time_thread_of(7, 71, 2'000'000'000, 1'000'000'000);
    one.phase = HOST_wait;
    one.state = HOST_STATE_poll;
    one.open_ns = 250'000'000;
    one.times.call_ns[HOST_wait] = 400'000'000;
    one.times.off_ns[HOST_wait][HOST_STATE_poll] = 300'000'000;
    Node node;
    node.read({one});
    const Json answer = node.answer();
    CHECK(answer.at("elapsed_seconds") == 2.5);
    REQUIRE(answer.at("threads").size() == 1);
    const Json &thread = answer.at("threads").at(0);
    CHECK(thread.at("id") == "71-2000000000");
    CHECK(thread.at("began") == "1970-01-01T00:00:02.000000000Z");
    CHECK(thread.at("pid") == 7);
    CHECK(thread.at("tid") == 71);
    CHECK(thread.at("comm") == "p7");
    CHECK(thread.at("script") == "train.py");
    CHECK(thread.at("thread") == "w\xef\xbf\xbd");
    CHECK(thread.at("cpu") == 1);
    CHECK(thread.at("numa_node") == 3);
    CHECK(thread.at("phase") == "wait");
    CHECK(thread.at("state") == "poll");
    CHECK(thread.at("open_seconds") == 0.25);
    CHECK(thread.at("wall_seconds") == 1.0);
    const Json cells = {{"host", {{"running", 0.6}}}, {"wait", {{"running", 0.1}, {"poll", 0.3}}}};
    CHECK(thread.at("seconds") == cells);
    const Json &process = answer.at("processes").at(0);
    CHECK(process.at("id") == "7-5");
    CHECK(process.at("threads") == 1);
    CHECK(process.at("wall_seconds") == 1.0);
    CHECK(process.at("seconds") == cells);
    CHECK(process.at("launch_gaps") == Json::object());
    CHECK(answer.at("truncated") == false);

    one.cpu = 2;  // the node is not known
    node.read({one});
    CHECK(node.answer().at("threads").at(0).at("numa_node").is_null());
}

TEST_CASE("a process has the oldest call that one of its threads is inside of") {
    auto one = host_time_thread_of(7, 71, 10, 1'000);
    auto other = host_time_thread_of(7, 72, 20, 500);
    one.call_ns = 250'000'000;
    one.function = 3;
    other.call_ns = 1'250'000'000;
    other.function = 2;
    Node node;
    const auto call = [&] { return node.answer().at("processes").at(0).at("call"); };
    node.read({one, other, host_time_thread_of(7, 73, 30, 500)});
    CHECK(call() == Json{{"function", "cudaMalloc"}, {"age_seconds", 1.25}});
    other.call_ns = 0;
    node.read({one, other});
    CHECK(call() == Json{{"function", "cudaFree"}, {"age_seconds", 0.25}});
    node.read({}, {one, other});
    CHECK(call().is_null());
}

TEST_CASE("a process has the launch gaps that its threads have ended") {
    auto one = host_time_thread_of(7, 71, 10, 1'000);
    one.of_device.gap_ns[HOST_DRAIN_device] = 2'500'000'000;
    one.of_device.gaps[HOST_DRAIN_device][0] = 2;
    one.of_device.gaps[HOST_DRAIN_device][HOST_SPAN_BUCKETS - 1] = 1;
    one.of_device.gap_state_ns[HOST_DRAIN_device][HOST_STATE_pipe] = 1'500'000'000;
    one.of_device.gap_state_ns[HOST_DRAIN_device][HOST_GAP_CUDA_CALL] = 500'000'000;
    auto other = host_time_thread_of(7, 72, 20, 500);
    other.of_device.gap_ns[HOST_DRAIN_device] = 500'000'000;
    other.of_device.gaps[HOST_DRAIN_device][3] = 1;
    other.of_device.gap_ns[HOST_DRAIN_none] = 250'000'000;
    other.of_device.gaps[HOST_DRAIN_none][3] = 1;
    Node node;
    node.read({one, other});
    node.read({other}, {one});
    CHECK(node.answer().at("processes").at(0).at("launch_gaps") ==
          Json{{"none", {{"gaps", 1}, {"seconds", 0.25}, {"states", Json::object()}}},
               {"device",
                {{"gaps", 4}, {"seconds", 3.0}, {"states", {{"pipe", 1.5}, {"cuda_call", 0.5}}}}}});
}

TEST_CASE("a process has the times of its workers, and no worker is in the document itself") {
    Node node;
    host_waits_record worker{};
    worker.waiter = {.since_ns = 9, .tgid = 8, .role = FOLLOWED_WORKER, .root = 7, .reserved = 0};
    worker.waits.ns[HOST_STATE_file] = 1'500'000'000;
    worker.waits.ns[HOST_STATE_running] = 500'000'000;
    host_waits_record other = worker;
    other.waiter.tgid = 9;
    host_waits_record of_another = worker;
    of_another.waiter.root = 6;
    of_another.waiter.tgid = 10;
    const auto launching = host_time_thread_of(7, 71, 10, 1'000);
    node.read({launching}, {}, {worker, worker, other, of_another});
    Json answer = node.answer();
    REQUIRE(answer.at("processes").size() == 1);
    CHECK(answer.at("processes").at(0).at("workers") ==
          Json{{"processes", 2},
               {"seconds", {{"running", 1.5}, {"file", 4.5}}},
               {"file_waits", Json::object()}});
    node.read({launching});
    answer = node.answer();
    CHECK(answer.at("processes").at(0).at("workers").at("processes") == 0);
    CHECK(answer.at("processes").at(0).at("workers").at("seconds").at("file") == 4.5);
}

TEST_CASE("numbers of launching threads only grow, and a process keeps what ended threads had") {
    Node node;
    auto one = host_time_thread_of(7, 71, 10, 1'000);
    one.times.off_ns[HOST_host][HOST_STATE_futex] = 600;
    auto other = host_time_thread_of(7, 72, 20, 500);
    node.read({one, other});
    // It was on a CPU for longer than it seemed.
    one.times.off_ns[HOST_host][HOST_STATE_futex] = 590;
    node.read({one, other});
    Json answer = node.answer();
    CHECK(answer.at("threads").at(0).at("seconds").at("host").at("futex") == 600e-9);
    CHECK(answer.at("threads").at(0).at("wall_seconds") == 1'000e-9);
    CHECK(answer.at("processes").at(0).at("threads") == 2);
    node.read({other}, {one});
    answer = node.answer();
    CHECK(answer.at("threads").size() == 1);
    CHECK(answer.at("processes").at(0).at("threads") == 1);
    CHECK(answer.at("processes").at(0).at("wall_seconds") == 1'500e-9);
    node.read({});
    CHECK(node.answer().at("threads").empty());
    CHECK(node.answer().at("processes").at(0).at("wall_seconds") == 1'500e-9);
}

TEST_CASE("the document of launching threads is asked for by process, name and number") {
    Node node;
    node.read({host_time_thread_of(9, 90, 30, 1), host_time_thread_of(7, 71, 20, 1),
               host_time_thread_of(7, 70, 10, 1)});
    CHECK(node.answer().at("threads").at(0).at("tid") == 70);  // the oldest
    CHECK(node.answer().at("threads").at(2).at("tid") == 90);
    CHECK(node.answer({{"pid", "9"}}).at("threads").size() == 1);
    CHECK(node.answer({{"pid", "9"}}).at("processes").size() == 1);
    CHECK(node.answer({{"pid", "8"}}).at("processes").empty());
    CHECK(node.answer({{"comm", "*7"}}).at("threads").size() == 2);
    const Json few = node.answer({{"limit", "1"}});
    CHECK(few.at("threads").size() == 1);
    CHECK(few.at("left_out") == 2);
    CHECK(few.at("processes").size() == 2);
    CHECK(few.at("truncated") == true);
    CHECK(node.answer({{"limit", "0"}}).at("threads").empty());
    for (const auto &[name, value] : std::vector<std::pair<std::string, std::string>>{
             {"pid", "0"}, {"pid", "x"}, {"limit", "-1"}, {"state", "poll"}}) {
        CAPTURE(name, value);
        CHECK_FALSE(node.ask({{name, value}}));
    }
}

TEST_CASE("a document of very many launching threads is cut, and says how much is missing",
          "[bulk]") {
    Node node;
    std::vector<host_thread_record> threads;
    constexpr std::uint32_t many = 30'000;
    for (std::uint32_t i = 1; i <= many; i++) {
        threads.push_back(host_time_thread_of(7, i, i, 1));
    }
    node.read(std::move(threads));
    const auto text = node.ask()->text;
    CHECK(text.size() <= max_list_page_bytes);
    const Json answer = Json::parse(text);
    CHECK(answer.at("truncated") == true);
    CHECK(answer.at("threads").size() + answer.at("left_out").get<std::size_t>() == many);
    CHECK(answer.at("threads").size() > 1'000);
    CHECK(answer.at("processes").at(0).at("threads") == many);
}

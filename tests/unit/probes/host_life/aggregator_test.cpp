#include "exporter/probes/host_life/aggregator.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <csignal>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/host_life/trace.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

namespace {

std::span<const std::byte> host_life_bytes_of(const auto &record) {
    return std::as_bytes(std::span(&record, 1));
}

life_exit_record exit_of(std::uint32_t status, std::uint32_t reasons = FOLLOWED_CHILD) {
    life_exit_record record{};
    record.head = {.at_ns = 2'000, .since_ns = 10, .tgid = 7, .type = LIFE_EXIT};
    record.reasons = reasons;
    record.wait_status = status;
    record.lifetime_ns = 5'000'000'000;
    return record;
}

struct HostLifeFixture {
    HostLifeAggregator aggregator{{.budget = [](std::string_view) { return 100U; },
                                   .retention = seconds(60),
                                   .look_up =
                                       [](ProcessIdentity &process) {
                                           process.comm = "prog";
                                           return true;
                                       }}};

    void follow(std::uint32_t type, std::uint32_t reasons) {
        follow_record record{};
        record.head = {.at_ns = 1, .since_ns = 10, .tgid = 7, .type = type};
        record.reasons = reasons;
        aggregator.on_follow(record);
    }
    [[nodiscard]] std::uint64_t sum(const std::string &family,
                                    const std::vector<std::string> &with) const {
        std::uint64_t sum = 0;
        for (const auto &snapshot : aggregator.families().snapshots()) {
            for (std::size_t i = 0; snapshot.description->name == "gpusnoop_host_" + family &&
                                    i < snapshot.labels.size();
                 i++) {
                const auto &labels = *snapshot.labels[i];
                sum +=
                    std::ranges::all_of(with,
                                        [&](const std::string &value) {
                                            return std::ranges::find(labels, value) != labels.end();
                                        })
                        ? snapshot.values[i * snapshot.stride]
                        : 0;
            }
        }
        return sum;
    }
};

std::string_view name_of(std::uint16_t function) {
    return function == 3 ? "cudaFree" : "cudaMalloc";
}

constexpr std::uint64_t second_ns = 1'000'000'000;

// Of a GPU process that ended at 100 s.
life_exit_record gpu_exit(std::uint64_t last_call) {
    life_exit_record record = exit_of(0, FOLLOWED_CUDA);
    record.head.at_ns = 100 * second_ns;
    record.cuda_since_ns = last_call == 0 ? 0 : 11;
    record.last_call = last_call;
    return record;
}

GpuProcessEnd gpu_end(std::map<std::string, std::uint64_t> bytes) {
    return {.key = {7, 11},
            .ended = seconds(100),
            .device_bytes = std::move(bytes),
            .is_complete = true};
}

Result<config::Config> parse(const std::string &text) {
    return config::parse(text, "c", setting_blocks());
}

}  // namespace

TEST_CASE("the cause of an end is its code, its signal, or lack of memory") {
    CHECK(cause_of(exit_of(0)) == "0");
    CHECK(cause_of(exit_of(3U << 8U)) == "3");
    CHECK(cause_of(exit_of(255U << 8U)) == "255");
    CHECK(cause_of(exit_of(SIGSEGV)) == "SIGSEGV");
    CHECK(cause_of(exit_of(SIGABRT | 0x80U)) == "SIGABRT");  // with a core
    CHECK(cause_of(exit_of(34)) == "SIGRT34");
    life_exit_record killed = exit_of(SIGKILL);
    CHECK(cause_of(killed) == "SIGKILL");
    killed.out_of_memory = 1;
    CHECK(cause_of(killed) == "oom_kill");
    life_exit_record saved = exit_of(0);
    saved.out_of_memory = 1;  // it had ended before the signal came
    CHECK(cause_of(saved) == "0");
}

TEST_CASE("starts and ends of processes count by role") {
    HostLifeFixture fixture;
    fixture.follow(FOLLOW_STARTED, FOLLOWED_CHILD);
    fixture.follow(FOLLOW_PROMOTED, FOLLOWED_CHILD | FOLLOWED_CUDA);
    fixture.follow(FOLLOW_EXECED, FOLLOWED_CHILD | FOLLOWED_CUDA);
    fixture.follow(FOLLOW_ENDED, FOLLOWED_CHILD);
    fixture.follow(FOLLOW_LEFT, FOLLOWED_NAMED);
    CHECK(fixture.sum("process_starts_total", {"prog", "worker"}) == 1);
    CHECK(fixture.sum("process_starts_total", {"prog", "gpu"}) == 1);
    CHECK(fixture.sum("process_exits_total", {"prog", "gpu", "exec"}) == 1);
    CHECK(fixture.sum("process_exits_total", {}) == 1);
    CHECK(fixture.aggregator.on_record(host_life_bytes_of(exit_of(1U << 8U)), {}));
    CHECK(fixture.sum("process_exits_total", {"worker", "1"}) == 1);
    CHECK_FALSE(fixture.aggregator.on_record(host_life_bytes_of(std::uint64_t{1}), {}));
}

TEST_CASE("signals count by what came since the last reading, each entry once") {
    HostLifeFixture fixture;
    const life_key key{.since_ns = 10,
                       .tgid = 7,
                       .signal = SIGTERM,
                       .sender = LIFE_PROCESS,
                       .role = FOLLOWED_WORKER};
    life_key other = key;
    other.sender = LIFE_KERNEL;
    other.role = FOLLOWED_GPU;
    fixture.aggregator.on_signals({{key, 3}, {key, 4}, {other, 1}});
    CHECK(fixture.sum("signals_total", {"SIGTERM", "process", "worker"}) == 4);
    fixture.aggregator.on_signals({{key, 6}, {other, 1}});
    CHECK(fixture.sum("signals_total", {"SIGTERM", "process", "worker"}) == 6);
    CHECK(fixture.sum("signals_total", {"SIGTERM", "kernel", "gpu"}) == 1);
}

TEST_CASE("the last ends are kept, the newest first, with their senders") {
    HostLifeFixture fixture;
    fixture.aggregator.keep(2);
    life_exit_record killed = exit_of(SIGTERM, FOLLOWED_CUDA);
    killed.has_origin = 1;
    killed.origin = {.sender = LIFE_PROCESS, .tgid = 99, .comm = "slurm\xff"};
    for (const auto &record : {exit_of(0), exit_of(SIGSEGV), killed}) {
        CHECK(fixture.aggregator.on_record(host_life_bytes_of(record), nanoseconds(1'000)));
    }
    const ApiPage document = exits_page(fixture.aggregator.history().list(), {}, name_of);
    const auto all = document.write({});
    REQUIRE(all);
    CHECK(all->text.find(R"({"exits":[{"time":"1970-01-01T00:00:00.000003000Z","pid":7,)") == 0);
    CHECK(
        all->text.find(
            R"("role":"gpu","cause":"SIGTERM","code":null,"signal":"SIGTERM","sender":{"kind":"process","pid":99,"comm":"slurm)"
            "\xef\xbf\xbd"
            R"("},"lifetime_seconds":5.0,"last_cuda_call":null,"device_memory":null})") !=
        std::string::npos);
    CHECK(all->text.find(R"("cause":"SIGSEGV")") != std::string::npos);
    CHECK(all->text.find(R"("cause":"0")") == std::string::npos);
    CHECK(document.write({{"limit", "1"}})->text.find(R"("left_out":1)") != std::string::npos);
    CHECK(document.write({{"comm", "x*"}})->text.find(R"({"exits":[],)") == 0);
    CHECK(document.write({{"cause", "SIGSEGV"}})->text.find("SIGTERM") == std::string::npos);
    CHECK(document.write({{"pid", "7"}})->text.find("SIGTERM") != std::string::npos);
    CHECK(document.write({{"pid", "1"}})->text ==
          "{\"exits\":[],\"reports\":[],\"left_out\":0,\"truncated\":false}\n");
    CHECK_FALSE(document.write({{"tid", "1"}}));
    CHECK_FALSE(document.write({{"limit", "x"}}));
}

TEST_CASE("the overview has ends of GPU processes, and of workers those that nobody asked for") {
    HostLifeFixture fixture;
    fixture.aggregator.keep(100);
    fixture.aggregator.history().add(gpu_end({{"0", 40}, {"1", 2}}));
    for (const auto &record :
         {exit_of(0), exit_of(SIGTERM), exit_of(SIGSEGV), exit_of(SIGTERM, FOLLOWED_CUDA),
          exit_of(3U << 8U, FOLLOWED_CUDA), gpu_exit(LAST_CALL(98 * second_ns, 1, 3))}) {
        CHECK(fixture.aggregator.on_record(host_life_bytes_of(record), {}));
    }
    const EndsOverview ends = fixture.aggregator.history().overview();
    CHECK(ends.count == 4);
    REQUIRE(ends.last.size() == 4);
    CHECK(ends.last[0].cause == "0");
    CHECK_FALSE(ends.last[0].is_bad);
    CHECK(ends.last[0].held_bytes == 42U);
    CHECK(ends.last[0].pid == 7);
    CHECK(ends.last[1].cause == "3");
    CHECK(ends.last[1].is_bad);
    CHECK(ends.last[2].cause == "SIGTERM");
    CHECK_FALSE(ends.last[2].is_bad);
    CHECK_FALSE(ends.last[2].held_bytes);
    CHECK(ends.last[3].cause == "SIGSEGV");
    CHECK(ends.last[3].is_bad);
    for (std::size_t i = 0; i < 2 * max_overview_ends; i++) {
        CHECK(fixture.aggregator.on_record(host_life_bytes_of(exit_of(SIGSEGV)), {}));
    }
    // Those that are bad leave room for the others.
    const EndsOverview many = fixture.aggregator.history().overview();
    CHECK(many.count == 4 + 2 * max_overview_ends);
    CHECK(many.last.size() == max_overview_ends + 2);
    CHECK(many.last.back().cause == "SIGTERM");
}

TEST_CASE("what a process held is joined with its end, whichever comes first") {
    const bool is_first = GENERATE(true, false);
    HostLifeFixture fixture;
    fixture.aggregator.keep(10);
    ExitHistory &history = fixture.aggregator.history();
    const GpuProcessEnd end = gpu_end({{"0", 40}, {"1", 2}});
    if (is_first) {
        history.add(end);
    }
    CHECK(fixture.aggregator.on_record(
        host_life_bytes_of(gpu_exit(LAST_CALL(98 * second_ns, 1, 3))), {}));
    if (!is_first) {
        CHECK_FALSE(history.list().front().held);
        history.add(end);
    }
    const auto text = exits_page(history.list(), {}, name_of).write({})->text;
    CHECK(
        text.find(
            R"("last_cuda_call":{"function":"cudaFree","age_seconds":2.0,"in_flight":true},"device_memory":{"bytes":42,"gpus":{"0":40,"1":2},"complete":true})") !=
        std::string::npos);
    // Another process with that id.
    life_exit_record other = gpu_exit(LAST_CALL(99 * second_ns, 0, 4));
    other.cuda_since_ns = 12;
    CHECK(fixture.aggregator.on_record(host_life_bytes_of(other), {}));
    CHECK_FALSE(history.list().front().held);
}

TEST_CASE("a thread that ends after its process's end was recorded can have made the last call") {
    HostLifeFixture fixture;
    fixture.aggregator.keep(10);
    ExitHistory &history = fixture.aggregator.history();
    history.add(gpu_end({{"0", 5}}));
    CHECK(fixture.aggregator.on_record(host_life_bytes_of(gpu_exit(0)), {}));
    life_last_call_record late{};
    late.head = {.at_ns = 101 * second_ns, .since_ns = 10, .tgid = 7, .type = LIFE_LAST_CALL};
    late.cuda_since_ns = 11;
    const auto last = [&] {
        return last_call_of(history.list().front().record, name_of).value_or(LastCall{});
    };
    for (const auto &[began, expected] : {std::pair(90, 10), std::pair(95, 5), std::pair(93, 5)}) {
        late.last_call = LAST_CALL(static_cast<std::uint64_t>(began) * second_ns, 0, 3);
        CHECK(fixture.aggregator.on_record(host_life_bytes_of(late), {}));
        CHECK(last().age == seconds(expected));
        CHECK(last().function == "cudaFree");
        CHECK_FALSE(last().is_in_flight);
    }
    REQUIRE(history.list().front().held);
    CHECK(history.list().front().held->device_bytes.at("0") == 5);
    late.head.since_ns = 99;  // of no known process
    CHECK(fixture.aggregator.on_record(host_life_bytes_of(late), {}));
    CHECK(history.list().size() == 1);
}

TEST_CASE("what processes held whose ends never come is forgotten") {
    HostLifeFixture fixture;
    fixture.aggregator.keep(10);
    ExitHistory &history = fixture.aggregator.history();
    history.add(gpu_end({{"0", 5}}));
    history.forget_unused(seconds(99));
    history.forget_unused(seconds(100));
    CHECK(
        fixture.aggregator.on_record(host_life_bytes_of(gpu_exit(LAST_CALL(second_ns, 0, 3))), {}));
    CHECK_FALSE(history.list().front().held);
}

TEST_CASE("a call in one word keeps its time to 16 ns, and a later one is larger") {
    const std::uint64_t nine_years = std::uint64_t{9} * 365 * 86'400 * second_ns;
    const std::uint64_t word = LAST_CALL(nine_years + 47, 1, 511);
    CHECK(LAST_CALL_BEGAN_NS(word) == (nine_years + 47) / 16 * 16);
    CHECK(LAST_CALL_IS_INSIDE(word) == 1);
    CHECK(LAST_CALL_FUNCTION(word) == 511);
    CHECK(LAST_CALL(nine_years + 64, 0, 0) > word);
}

TEST_CASE("a trace of ends has the signal and its sender") {
    life_exit_record record = exit_of(SIGKILL);
    record.has_origin = 1;
    record.origin = {.sender = LIFE_PROCESS, .tgid = 99, .comm = "bash\x1b"};
    const trace::Event event = trace::event_of(record, ProcessIdentity(), 100);
    CHECK(event.name == "SIGKILL");
    CHECK(event.time_ns == 2'100);
    const trace::Event exited = trace::event_of(exit_of(5U << 8U), ProcessIdentity(), 0);
    CHECK(exited.name == "5");
    const auto value = [](const trace::Event &of, std::string_view key) {
        return std::ranges::find(of.details, key, &trace::Detail::first)->second;
    };
    CHECK(value(event, "role") == trace::Value("worker"));
    CHECK(value(event, "code") == trace::Value());
    CHECK(value(event, "sender_pid") == trace::Value(std::uint64_t{99}));
    CHECK(std::get<std::string>(value(event, "sender_comm")).find('\x1b') == std::string::npos);
    CHECK(value(exited, "code") == trace::Value(std::uint64_t{5}));
    CHECK(value(exited, "signal") == trace::Value());
    CHECK(value(exited, "sender") == trace::Value());
    CHECK(value(exited, "last_cuda_call") == trace::Value());
    const trace::Event called =
        trace::event_of(gpu_exit(LAST_CALL(98 * second_ns, 1, 3)), ProcessIdentity(), 0, name_of);
    CHECK(value(called, "last_cuda_call") == trace::Value("cudaFree"));
    CHECK(value(called, "last_cuda_call_age_ns") == trace::Value(2 * second_ns));
    CHECK(value(called, "last_cuda_call_in_flight") == trace::Value("true"));
}

TEST_CASE("the settings of the host probes are read, and mistakes refused") {
    const auto config =
        parse("host: {descendants: false, read_interval: 1s, life: {enabled: true, keep: 0}}");
    REQUIRE(config);
    CHECK(config->of<HostLifeConfig>() == HostLifeConfig{.enabled = true, .keep = 0});
    CHECK(follows_processes(*config));
    CHECK_FALSE(parse("host: {life: {keep: 1001}}"));
    CHECK_FALSE(parse("host: {life: {kept: 1}}"));
    CHECK_FALSE(parse("host: {live: {}}"));
    CHECK_FALSE(parse("host: {read_interval: 500ms}"));
    CHECK_FALSE(parse("host_life: {enabled: true}"));
}

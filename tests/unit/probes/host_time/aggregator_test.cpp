#include "exporter/probes/host_time/aggregator.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/host_time/calls.h"
#include "exporter/symbols/names/syscall_names.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using std::chrono::seconds;

namespace {

using Values = std::vector<std::string>;

class Bench {
public:
    HostTimeAggregator aggregator{{.budget = [](std::string_view) { return 1000; },
                                   .retention = seconds(60),
                                   .look_up =
                                       [](ProcessIdentity &identity) {
                                           identity.comm = "p" + std::to_string(identity.key.tgid);
                                           return true;
                                       }}};

    // By the labels that follow those of the process. Of a histogram, its first bucket, or its sum.
    [[nodiscard]] std::map<Values, std::uint64_t> shown(const std::string &family,
                                                        bool of_sum = false) const {
        std::map<Values, std::uint64_t> shown;
        for (const auto &snapshot : aggregator.families().snapshots()) {
            if (snapshot.description->name != "gpusnoop_host_" + family) {
                continue;
            }
            for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
                Values values = *snapshot.labels[i];
                values.erase(values.begin() + 1, values.begin() + 4);
                shown[values] =
                    snapshot.values[i * snapshot.stride + (of_sum ? snapshot.stride - 1 : 0)];
            }
        }
        return shown;
    }
    [[nodiscard]] std::uint64_t sum(const std::string &family, const Values &values) const {
        return shown(family, true).at(values);
    }
    [[nodiscard]] std::uint64_t cell(const std::string &phase, const std::string &state) const {
        const auto cells = shown("launch_thread_seconds_total");
        const auto found = cells.find({"p7", phase, state});
        return found == cells.end() ? 0 : found->second;
    }
    [[nodiscard]] std::uint64_t all() const {
        std::uint64_t sum = 0;
        for (const auto &[values, value] : shown("launch_thread_seconds_total")) {
            sum += value;
        }
        return sum;
    }
};

host_thread_record thread(std::uint32_t tid, std::uint64_t wall) {
    host_thread_record record{};
    record.process = {.since_ns = 1, .tgid = 7, .reserved = 0};
    record.tid = tid;
    record.times.wall_ns = wall;
    return record;
}

host_device_key host_time_key_of(const host_thread_record &thread) {
    return {
        .since_ns = thread.process.since_ns, .tgid = thread.process.tgid, .device = thread.device};
}

HostTimeReading reading(std::vector<host_thread_record> threads) {
    HostTimeReading reading;
    reading.threads = std::move(threads);
    reading.nodes = {0, 1};
    return reading;
}

}  // namespace

TEST_CASE("the rest of a phase's time is spent running, and all cells are the wall time") {
    Bench fixture;
    auto one = thread(1, 1000);
    one.times.call_ns[HOST_wait] = 400;
    one.times.off_ns[HOST_wait][HOST_STATE_poll] = 150;
    one.times.off_ns[HOST_host][HOST_STATE_futex] = 200;
    one.times.off_ns[HOST_host][HOST_STATE_stolen] = 10;
    fixture.aggregator.on_reading(reading({one}));
    CHECK(fixture.cell("wait", "poll") == 150);
    CHECK(fixture.cell("wait", "running") == 250);
    CHECK(fixture.cell("host", "futex") == 200);
    CHECK(fixture.cell("host", "stolen") == 10);
    CHECK(fixture.cell("host", "running") == 390);
    CHECK(fixture.all() == 1000);
}

TEST_CASE("launches that were not observed take as long as the others") {
    Bench fixture;
    double unseen = 0;
    fixture.aggregator.estimate_launches(
        [&](std::uint32_t tgid) { return tgid == 7 ? unseen : 0; });
    auto one = thread(1, 1000);
    one.times.call_ns[HOST_launch] = 100;
    fixture.aggregator.on_reading(reading({one}));
    CHECK(fixture.cell("launch", "running") == 100);
    CHECK(fixture.cell("host", "running") == 900);
    one.times.wall_ns = 2000;
    unseen = 3;
    fixture.aggregator.on_reading(reading({one}));
    CHECK(fixture.cell("launch", "running") == 400);
    CHECK(fixture.cell("host", "running") == 1600);
    one.times.wall_ns = 2100;
    unseen = 90;  // no more than there is time
    fixture.aggregator.on_reading(reading({one}));
    CHECK(fixture.cell("launch", "running") == 500);
    CHECK(fixture.all() == 2100);
}

TEST_CASE("what is reported of launching threads never falls") {
    Bench fixture;
    auto one = thread(1, 1000);
    one.times.off_ns[HOST_host][HOST_STATE_futex] = 600;  // open until now
    fixture.aggregator.on_reading(reading({one}));
    // It was on a CPU for longer than it seemed.
    one.times.wall_ns = 1100;
    one.times.off_ns[HOST_host][HOST_STATE_futex] = 590;
    one.times.off_ns[HOST_host][HOST_STATE_runnable] = 150;
    fixture.aggregator.on_reading(reading({one}));
    CHECK(fixture.cell("host", "futex") == 600);
    CHECK(fixture.cell("host", "running") == 400);
    CHECK(fixture.cell("host", "runnable") == 150);
    one.times.wall_ns = 1500;
    fixture.aggregator.on_reading(reading({one}));
    CHECK(fixture.all() == 1500);
    // A call that is over cannot have been shorter than the time off the CPU inside of it.
    one.times.call_ns[HOST_launch] = 20;
    one.times.off_ns[HOST_launch][HOST_STATE_file] = 30;
    one.times.wall_ns = 1530;
    fixture.aggregator.on_reading(reading({one}));
    CHECK(fixture.cell("launch", "running") == 0);
    CHECK(fixture.all() == 1530);
}

TEST_CASE("an ended thread's time stays, and is counted once") {
    Bench fixture;
    auto one = thread(1, 1000);
    one.times.opened = 3;
    one.times.settled = 2;
    auto other = thread(2, 500);
    fixture.aggregator.on_reading(reading({one, other}));
    CHECK(fixture.shown("launch_threads") == std::map<Values, std::uint64_t>{{{"p7"}, 2}});
    CHECK(fixture.aggregator.opened() == 3);
    CHECK(fixture.aggregator.settled() == 2);
    // It ended between the reading of the past and that of the threads.
    fixture.aggregator.on_reading(reading({other}));
    CHECK(fixture.all() == 1500);
    one.times.wall_ns = 1200;
    one.times.settled = 3;
    auto last = reading({});
    last.past.emplace_back(one.process, one.times);
    other.times.wall_ns = 600;
    last.past.back().second.wall_ns += other.times.wall_ns;
    fixture.aggregator.on_reading(last);
    CHECK(fixture.all() == 1800);
    CHECK(fixture.aggregator.settled() == 3);
    CHECK(fixture.shown("launch_threads").empty());
}

TEST_CASE("running time is shown by the NUMA node, with what a thread runs at the moment") {
    Bench fixture;
    auto one = thread(1, 1000);
    one.cpu = 1;
    one.of_device.node_ns[0] = 300;
    one.times.ran_ns = 300;
    one.times.off_ns[HOST_host][HOST_STATE_sleep] = 500;
    fixture.aggregator.on_reading(reading({one}));
    CHECK(fixture.shown("launch_thread_cpu_seconds_total") ==
          std::map<Values, std::uint64_t>{{{"p7", "unknown", "0"}, 300},
                                          {{"p7", "unknown", "1"}, 200}});
    one.cpu = 99;
    one.times.wall_ns = 1100;
    one.of_device.node_ns[1] = 200;
    one.of_device.node_ns[HOST_NODES - 1] = 40;
    one.times.ran_ns = 540;
    fixture.aggregator.on_reading(reading({one}));
    CHECK(fixture.shown("launch_thread_cpu_seconds_total") ==
          std::map<Values, std::uint64_t>{{{"p7", "unknown", "0"}, 300},
                                          {{"p7", "unknown", "1"}, 200},
                                          {{"p7", "unknown", "other"}, 100}});
}

TEST_CASE("each system call has the state of a thread that is blocked in it") {
    std::array<std::uint8_t, HOST_CALLS> classes{};
    classify_system_calls(classes);
    const auto state_in = [&](std::string_view call) {
        return classes.at(syscall_number(call).value());
    };
    CHECK(state_in("futex") == HOST_STATE_futex);
    CHECK(state_in("ppoll") == HOST_STATE_poll);
    CHECK(state_in("epoll_pwait") == HOST_STATE_poll);
    CHECK(state_in("clock_nanosleep") == HOST_STATE_sleep);
    CHECK(state_in("wait4") == HOST_STATE_child);
    CHECK(state_in("io_uring_enter") == HOST_STATE_io_uring);
    CHECK(state_in("recvfrom") == HOST_STATE_socket);
    CHECK(state_in("read") == HOST_BY_DESCRIPTOR);
    CHECK(state_in("ioctl") == HOST_BY_DESCRIPTOR);
    CHECK(state_in("openat") == HOST_STATE_file);
    CHECK(state_in("mmap") == HOST_STATE_memory);
    CHECK(state_in("rt_sigtimedwait") == HOST_STATE_other);
    CHECK(host_state_name(HOST_STATE_page_fault) == "page_fault");
    CHECK(host_phase_name(HOST_wait) == "wait");
    CHECK(host_state_name(HOST_STATE_COUNT) == "other");
}

TEST_CASE("launch gaps are counted once, by what came before them and by state") {
    Bench fixture;
    auto one = thread(1, 1000);
    one.of_device.gap_ns[HOST_DRAIN_device] = 700;
    one.of_device.gaps[HOST_DRAIN_device][2] = 3;
    one.of_device.gap_state_ns[HOST_DRAIN_device][HOST_STATE_pipe] = 500;
    one.of_device.gap_state_ns[HOST_DRAIN_device][HOST_GAP_CUDA_CALL] = 200;
    fixture.aggregator.on_reading(reading({one}));
    fixture.aggregator.on_reading(reading({one}));
    CHECK(fixture.shown("launch_gap_state_seconds_total") ==
          std::map<Values, std::uint64_t>{{{"p7", "unknown", "device", "pipe"}, 500},
                                          {{"p7", "unknown", "device", "cuda_call"}, 200}});
    CHECK(fixture.shown("launch_gap_seconds").size() == 1);
    CHECK(fixture.shown("launch_gap_by_drain_seconds").size() == 1);

    // The thread has ended, another one goes on.
    auto other = thread(2, 10);
    other.of_device.gaps[HOST_DRAIN_none][0] = 1;
    auto next = reading({other});
    next.past = {{one.process, one.times}};
    next.devices = {{host_time_key_of(one), one.of_device}};
    fixture.aggregator.on_reading(next);
    CHECK(fixture.shown("launch_gap_state_seconds_total").at({"p7", "unknown", "device", "pipe"}) ==
          500);
    CHECK(fixture.shown("launch_gap_by_drain_seconds").size() == 2);
    CHECK(fixture.shown("launch_gap_seconds").size() == 1);
}

TEST_CASE("gaps and running time are counted by the GPU of the device, once it is known") {
    Bench fixture;
    bool is_known = false;
    fixture.aggregator.name_gpus([&](std::uint32_t tgid, std::int32_t device) {
        CHECK(tgid == 7);
        return is_known ? std::optional("gpu" + std::to_string(device)) : std::nullopt;
    });
    auto one = thread(1, 1000);
    one.device = 1;
    one.of_device.gaps[HOST_DRAIN_none][0] = 1;
    one.of_device.gap_state_ns[HOST_DRAIN_device][HOST_STATE_pipe] = 40;
    one.of_device.node_ns[0] = one.times.ran_ns = 1000;
    auto now = reading({one});
    // It had launched on another device before.
    host_device_times before{};
    before.gap_state_ns[HOST_DRAIN_device][HOST_STATE_pipe] = 30;
    now.devices = {{{.since_ns = 1, .tgid = 7, .device = 0}, before}};
    fixture.aggregator.on_reading(now);
    CHECK(fixture.shown("launch_gap_state_seconds_total").empty());
    CHECK(fixture.all() == 1000);

    is_known = true;
    fixture.aggregator.on_reading(now);
    CHECK(fixture.shown("launch_gap_state_seconds_total") ==
          std::map<Values, std::uint64_t>{{{"p7", "gpu0", "device", "pipe"}, 30},
                                          {{"p7", "gpu1", "device", "pipe"}, 40}});
    CHECK(fixture.shown("launch_thread_cpu_seconds_total") ==
          std::map<Values, std::uint64_t>{{{"p7", "gpu1", "0"}, 1000}});
    fixture.aggregator.for_each([](const ProcessIdentity & /*process*/, const ProcessTimes &times) {
        CHECK(times.gaps.by_drain[HOST_DRAIN_device].state_ns[HOST_STATE_pipe] == 70);
        CHECK(times.gaps.gaps() == 1);
    });

    // All its threads ended before `cuda` knew the process.
    Bench late;
    late.aggregator.name_gpus([](std::uint32_t, std::int32_t) { return std::nullopt; });
    now.past = {{one.process, one.times}};
    now.threads = {};
    late.aggregator.on_reading(now);
    CHECK(late.shown("launch_gap_state_seconds_total").at({"p7", "unknown", "device", "pipe"}) ==
          30);
}

TEST_CASE("how long the GPU waited for the host is handed over of launching processes that ended") {
    Bench fixture;
    auto one = thread(1, 1000);
    one.of_device.gap_ns[HOST_DRAIN_none] = 1;
    one.of_device.gap_ns[HOST_DRAIN_stream] = 20;
    auto other = one;
    other.device = 1;
    other.of_device.gap_ns[HOST_DRAIN_device] = 300;
    auto now = reading({one, other});
    host_waits_record worker{};
    worker.waiter = {.since_ns = 1, .tgid = 8, .role = FOLLOWED_WORKER, .root = 7, .reserved = 0};
    now.waits = {worker};
    fixture.aggregator.on_reading(now);
    std::map<std::uint32_t, std::int64_t> waited;
    const auto collect = [&] {
        fixture.aggregator.for_each_ended(
            [&](const ProcessKey &process, auto time) { waited[process.tgid] = time.count(); });
    };
    collect();
    CHECK(waited.empty());
    fixture.aggregator.processes().end({7, 1}, seconds(5));
    fixture.aggregator.processes().end({8, 1}, seconds(5));
    collect();
    CHECK(waited == std::map<std::uint32_t, std::int64_t>{{7, 340}});
}

TEST_CASE("waits of all threads are counted by role, and files by file system") {
    Bench fixture;
    host_waits_record worker{};
    worker.waiter = {.since_ns = 1, .tgid = 7, .role = FOLLOWED_WORKER, .root = 5, .reserved = 0};
    worker.waits.ns[HOST_STATE_pipe] = 100;
    worker.waits.ns[HOST_STATE_futex] = 500;
    worker.waits.latency_ns = 20;
    worker.waits.latencies[0] = 2;
    worker.waits.opened = 3;
    worker.waits.settled = 2;
    auto now = reading({});
    now.waits = {worker, worker};  // of two threads
    host_file_waits files{};
    files.ns = 70;
    files.waits[1] = 4;
    now.file_waits = {{{.since_ns = 1, .tgid = 7, .filesystem = 0x6969}, files},
                      {{.since_ns = 1, .tgid = 7, .filesystem = 0}, files},
                      {{.since_ns = 1, .tgid = 7, .filesystem = 12345}, files}};
    fixture.aggregator.on_reading(now);
    fixture.aggregator.on_reading(now);
    CHECK(fixture.shown("blocked_seconds_total") ==
          std::map<Values, std::uint64_t>{{{"p7", "worker", "pipe"}, 200}});
    CHECK(fixture.shown("file_wait_seconds").size() == 3);
    CHECK(fixture.shown("file_wait_seconds").contains({"p7", "worker", "nfs"}));
    CHECK(fixture.shown("file_wait_seconds").contains({"p7", "worker", "unknown"}));
    CHECK(fixture.shown("file_wait_seconds").contains({"p7", "worker", "other"}));
    CHECK(fixture.shown("runqueue_latency_seconds").size() == 1);
    CHECK(fixture.aggregator.opened() == 6);
    CHECK(fixture.aggregator.settled() == 4);

    // It has made its first CUDA call, and one of its threads has become a launching one.
    auto launching = thread(1, 1000);
    launching.times.off_ns[HOST_host][HOST_STATE_pipe] = 30;
    launching.times.off_ns[HOST_wait][HOST_STATE_pipe] = 10;
    launching.times.latency_ns = 6;
    launching.times.latencies[0] = 1;
    now.threads = {launching};
    now.waits[0].waits.ns[HOST_STATE_pipe] = 105;
    now.waits[0].waits.file_waits_lost = 1;
    fixture.aggregator.on_reading(now);
    CHECK(fixture.shown("blocked_seconds_total") ==
          std::map<Values, std::uint64_t>{{{"p7", "gpu", "pipe"}, 45},
                                          {{"p7", "worker", "pipe"}, 200}});
    CHECK(fixture.sum("runqueue_latency_seconds", {"p7", "gpu"}) == 6);
    CHECK(fixture.sum("runqueue_latency_seconds", {"p7", "worker"}) == 40);
    CHECK(fixture.aggregator.file_waits_lost() == 1);
}

TEST_CASE("records of gaps and lost ones are added up over threads, also over ended ones") {
    Bench fixture;
    auto one = thread(1, 1000);
    one.times.gap_records = 5;
    one.times.gap_records_lost = 2;
    auto other = thread(2, 10);
    other.times.gap_records = 1;
    fixture.aggregator.on_reading(reading({one, other}));
    auto next = reading({other});
    next.past = {{one.process, one.times}};
    fixture.aggregator.on_reading(next);
    CHECK(fixture.aggregator.gap_records() == 6);
    CHECK(fixture.aggregator.gap_records_lost() == 2);
}

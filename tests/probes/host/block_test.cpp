// Requests to a block device that only the traced programs use, against what they did.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/machine/loop_device.h"
#include "tests/harness/probe_state.h"
#include "tests/harness/trace.h"

using namespace harness;

namespace {

constexpr auto host_block_durations = "gpusnoop_host_block_io_duration_seconds";
constexpr auto host_block_bytes = "gpusnoop_host_block_io_bytes_total";

const std::string host_block_of_name =
    "cuda: {enabled: false}\ntargets: {comms: [\"li[v]es\"]}\nhost: {block: {enabled: true}}\n";

LoopDevice own_disk() {
    auto disk = LoopDevice::make(64U << 20U);
    if (!disk) {
        missing("loop devices");
    }
    return *std::move(disk);
}

// The field of /sys/block/NAME/stat (Documentation/block/stat.rst).
double device_count(const std::string &name, int field) {
    std::ifstream file("/sys/block/" + name + "/stat");
    double value = -1;
    for (int i = 0; i <= field; i++) {
        file >> value;
    }
    return value;
}

struct Requests {
    double count;
    double block;  // bytes
};

// The page has all of them, or all but those that the kernel left out.
void check_requests(const Page &page, const Labels &of, const std::vector<Requests> &made) {
    CAPTURE(made.size());
    const double left_out = left_out_runs(page, "host_block");
    double requests = 0;
    double total = 0;
    double largest = 0;
    for (const auto &[count, block] : made) {
        requests += count;
        total += count * block;
        largest = std::max(largest, block);
    }
    const double missing = requests - page.sum(std::string(host_block_durations) + "_count", of);
    CHECK(missing >= 0);
    CHECK(missing <= left_out);
    const double missing_bytes = total - page.sum(host_block_bytes, of);
    CHECK(missing_bytes >= 0);
    CHECK(missing_bytes <= missing * largest);
}

}  // namespace

TEST_CASE("block requests are counted, each with its time and its bytes", "[kernel][core]") {
    require_bpf();
    const LoopDevice disk = own_disk();
    const Exporter exporter(host_block_of_name);
    Process process({standin("lives"), "wait", "reads", disk.path(), "4096", "500", "writes",
                     disk.path(), "65536", "200", "wait"});
    process.wait_for_output("waiting 1");
    const double reads_before = device_count(disk.name(), 0);
    const double writes_before = device_count(disk.name(), 4);
    process.go_on_to(2);

    const Labels of = {{"comm", "lives"}, {"role", "gpu"}, {"device", disk.name()}};
    const auto with = [&](const std::string &op) {
        Labels labels = of;
        labels["op"] = op;
        return labels;
    };
    const Page page = exporter.scrape();
    check_requests(page, with("read"), {{500, 4096}});
    check_requests(page, with("write"), {{200, 65536}});
    check_requests(page, of, {{500, 4096}, {200, 65536}});
    CHECK(page.sum(std::string(host_block_durations) + "_sum", of) > 0);
    // The device's own account.
    CHECK(device_count(disk.name(), 0) - reads_before == 500);
    CHECK(device_count(disk.name(), 4) - writes_before == 200);
    CHECK(state_of(page, "host_block") == "up");
    const Labels probe = {{"probe", "host_block"}};
    const double left_out = left_out_runs(page, "host_block");
    CHECK(page.sum("gpusnoop_probe_events_lost_total", probe) == left_out);
    CHECK(page.sum("gpusnoop_probe_in_flight_calls", probe) <= left_out);
    CHECK(page.sum("gpusnoop_probe_entries_total", probe) ==
          page.sum("gpusnoop_probe_events_total", probe) +
              page.sum("gpusnoop_probe_stale_calls_total", probe) +
              page.sum("gpusnoop_probe_in_flight_calls", probe));

    // Of another program, which is not followed.
    const Finished other =
        run({"dd", "if=" + disk.path(), "of=/dev/null", "bs=8192", "count=100", "iflag=direct"});
    INFO(other.output);
    CHECK(other.code == 0);
    CHECK(device_count(disk.name(), 0) - reads_before == 600);
    check_requests(exporter.scrape(), {{"device", disk.name()}}, {{500, 4096}, {200, 65536}});
    process.finish();
}

TEST_CASE("block requests of a worker, and of processes that end at once, count", "[kernel]") {
    require_bpf();
    const LoopDevice disk = own_disk();
    const Exporter exporter("host: {block: {enabled: true}}\n");
    const Process holder({standin("lives"), "wait"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    Process process(
        {standin("lives"), "cuda", "wait", "readers", disk.path(), "4096", "20", "8", "wait"});
    process.go_on_to(2);
    const Labels of = {{"role", "worker"}, {"device", disk.name()}, {"op", "read"}};
    double counted = 0;
    eventually("the requests of eight workers to be counted", [&] {
        const Page page = exporter.scrape();
        counted = page.sum(std::string(host_block_durations) + "_count", of);
        return counted + left_out_runs(page, "host_block") >= 160;
    });
    check_requests(exporter.scrape(), of, {{160, 4096}});
    // Nor does the end of the workers count again, while they are forgotten.
    std::this_thread::sleep_for(std::chrono::seconds(4));
    CHECK(exporter.scrape().sum(host_block_bytes, of) == counted * 4096);
    process.finish();
}

TEST_CASE("block requests are those of whoever made them, beside others and by each I/O scheduler",
          "[kernel]") {
    require_bpf();
    const LoopDevice disk = own_disk();
    const std::string scheduler = GENERATE("none", "mq-deadline");
    CAPTURE(scheduler);
    if (!disk.use_scheduler(scheduler)) {
        missing("the I/O scheduler " + scheduler);
    }
    const Exporter exporter(host_block_of_name);
    const Process other(
        {"sh", "-c",
         "echo began; while dd if=" + disk.path() +
             " of=/dev/null bs=4096 iflag=direct count=500 2>/dev/null; do :; done"});
    other.wait_for_output("began");
    Process process({standin("lives"), "reads", disk.path(), "4096", "300", "writes", disk.path(),
                     "8192", "100", "readers", disk.path(), "4096", "100", "4", "wait"});
    process.wait_for_output("waiting 1");
    const Labels of = {{"comm", "lives"}, {"device", disk.name()}};
    const Page page = exporter.scrape();
    check_requests(page, of, {{400, 4096}, {300, 4096}, {100, 8192}});
    CHECK(page.sum(host_block_bytes, {{"device", disk.name()}}) == page.sum(host_block_bytes, of));
    process.finish();
}

TEST_CASE("a trace of block requests has each of them, with its wait in the queue", "[kernel]") {
    require_bpf();
    const LoopDevice disk = own_disk();
    const std::string scheduler = GENERATE("none", "mq-deadline");
    CAPTURE(scheduler);
    if (!disk.use_scheduler(scheduler)) {
        missing("the I/O scheduler " + scheduler);
    }
    Trace trace("block", "", {"--comm=lives"});
    Process process({standin("lives"), "wait", "reads", disk.path(), "4096", "30", "writes",
                     disk.path(), "8192", "20", "wait"});
    process.go_on_to(2);
    // The program also reads pages of its own file, if nobody has run it lately.
    const auto is_of_disk = [&](const nlohmann::json &line) {
        return line.at("device") == disk.name();
    };
    eventually("all lines", [&] { return std::ranges::count_if(trace.calls(), is_of_disk) >= 50; });
    process.finish();
    auto written = trace.finish();
    std::erase_if(written, [&](const nlohmann::json &line) { return !is_of_disk(line); });
    std::map<std::string, std::uint64_t> bytes_of;
    for (const nlohmann::json &line : written) {
        CAPTURE(line.dump());
        CHECK(line.at("comm") == "lives");
        CHECK(line.at("role") == "gpu");
        CHECK(line.at("pid") == process.pid());
        CHECK(line.at("tid") == process.pid());
        CHECK(line.at("duration_ns").get<std::uint64_t>() > 0);
        // Without a scheduler, some kernels have a queue of their own.
        CHECK((line.at("queued_ns").get<std::uint64_t>() > 0 || scheduler == "none"));
        CHECK(line.at("error").is_null());
        bytes_of[line.at("op")] += line.at("bytes").get<std::uint64_t>();
    }
    CHECK(written.size() == 50);
    CHECK(bytes_of ==
          std::map<std::string, std::uint64_t>{{"read", 30 * 4096}, {"write", 20 * 8192}});

    // A minute is longer than any of them took.
    Trace slow("block", "", {"--comm=lives", "--min-duration=1m"});
    CHECK(run({standin("lives"), "reads", disk.path(), "4096", "10"}).code == 0);
    CHECK(slow.finish().empty());
}

TEST_CASE("what an ended process did counts once, however long nobody waits for it",
          "[kernel][long][beside]") {
    require_bpf();
    const LoopDevice disk = own_disk();
    const Exporter exporter(host_block_of_name);
    Process process({standin("lives"), "unwaited", disk.path(), "4096", "50", "wait"});
    const Labels of = {{"device", disk.name()}};
    eventually("the requests of the child",
               [&] { return exporter.scrape().sum(host_block_bytes, of) == 50 * 4096; });
    // The exporter forgets the child half a minute after its end; the kernel has not, by then.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    while (std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        REQUIRE(exporter.scrape().sum(host_block_bytes, of) == 50 * 4096);
    }
    process.finish();
}

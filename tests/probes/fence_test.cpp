// DMA fences: on a machine with the module vgem, which has fences that user space makes, against a
// program that knows which it made, and on one with a virtio GPU. tests/vm/ has such machines.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/probe_state.h"
#include "tests/harness/trace.h"

using namespace harness;

namespace {

constexpr auto events_total = "gpusnoop_dma_fence_events_total";

double events(const Page &page, const std::string &event) {
    return page.sum(
        events_total,
        {{"comm", "fences"}, {"driver", "vgem"}, {"timeline", "unbound"}, {"event", event}});
}

double events(const Page &page, const Labels &of, const std::string &event) {
    Labels labels = of;
    labels["event"] = event;
    return page.sum(events_total, labels);
}

double fence_probe(const Page &page, const std::string &what) {
    return page.sum("gpusnoop_probe_" + what, {{"probe", "fence"}});
}

std::string fence_config(const std::string &fence) {
    return "cuda: {enabled: false}\ntargets: {comms: [\"fen[c]es\"]}\nfence: " + fence + "\n";
}

struct Made {
    int fences = 0;
    int waits = 0;
};

void require_vgem() {
    require_bpf();
    if (run({standin("fences"), "--look"}).code == 3) {
        if (in_guest()) {
            FAIL("this guest has no vgem");
        }
        SKIP("this test needs the module vgem: scripts/vm.sh has kernels with it");
    }
}

Made make(int fences, int waits, int crowd = 0) {
    Process process({standin("fences"), "--fences", std::to_string(fences), "--waits",
                     std::to_string(waits), "--crowd", std::to_string(crowd)});
    process.wait_for_output("waiting");
    // The exporter has long read that it was started when its signal handler is there, except on a
    // machine that is very busy.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    process.signal(SIGUSR1);
    eventually(
        "the fences to end", [&] { return !process.output().ends_with("waiting\n"); },
        std::chrono::minutes(4));
    const int code = process.wait();
    const std::string output = process.output();
    INFO(output);
    REQUIRE(code == 0);
    Made made;
    std::istringstream words(output.substr(output.find("fences ")));
    std::string word;
    words >> word >> made.fences >> word >> made.waits;
    return made;
}

void check_begins_and_ends(const Page &page, const Made &made) {
    CHECK(events(page, "init") == made.fences);
    CHECK(events(page, "destroy") == made.fences);
    CHECK(events(page, "wait_start") == made.waits);
    CHECK(events(page, "wait_end") == made.waits);
    CHECK(page.sum("gpusnoop_dma_fence_wait_duration_seconds_count",
                   {{"comm", "fences"}, {"driver", "vgem"}}) == made.waits);
    CHECK(fence_probe(page, "unmatched_returns_total") == 0);
}

}  // namespace

TEST_CASE(
    "fences and waits are counted to the one, and nothing is left of waits that were cut short",
    "[.guest]") {
    require_vgem();
    const Exporter exporter(fence_config("{}"));
    const Made made = make(40, 3);
    REQUIRE(made.fences == 40 + 3 + 2);
    REQUIRE(made.waits == 3 + 2);
    Page page =
        exporter.wait_for(events_total, {{"comm", "fences"}, {"event", "destroy"}}, made.fences);
    check_begins_and_ends(page, made);
    CHECK(events(page, "signaled") == made.fences);
    CHECK(page.sum("gpusnoop_dma_fence_wait_duration_seconds_sum") > 0);
    CHECK(page.sum("gpusnoop_dma_fence_wait_duration_seconds_sum") < 60);
    CHECK(fence_probe(page, "events_total") == 3 * made.fences + 2 * made.waits);
    CHECK(fence_probe(page, "entries_total") == fence_probe(page, "events_total"));
    CHECK(fence_probe(page, "events_lost_total") == 0);

    // Another process's are added.
    const Made more = make(5, 0);
    page = exporter.wait_for(events_total, {{"comm", "fences"}, {"event", "destroy"}},
                             made.fences + more.fences);
    CHECK(events(page, "init") == made.fences + more.fences);
    CHECK(events(page, "wait_start") == made.waits);
}

TEST_CASE("fences past the table's room are lost, and counted as that", "[.guest]") {
    require_vgem();
    const Exporter exporter(fence_config("{max_fences: 64}"));
    const Made made = make(100, 0);
    const Page page =
        exporter.wait_for("gpusnoop_probe_events_lost_total",
                          {{"probe", "fence"}, {"reason", "table_full"}}, made.fences - 64);
    CHECK(events(page, "init") == 64);
    eventually("the others to end", [&] { return events(exporter.scrape(), "destroy") == 64; });
    CHECK(events(exporter.scrape(), "signaled") == 64);
    // There is room again.
    const Made more = make(64, 0);
    CHECK(events(exporter.wait_for(events_total, {{"event", "destroy"}}, 128), "init") == 128);
    CHECK(more.fences == 64);
}

// Two minutes and more: not among those that scripts/vm.sh runs by itself.
TEST_CASE("a hundred thousand fences at one time, and ten thousand threads that wait for some",
          "[.guest]") {
    require_vgem();
    const Exporter exporter(fence_config("{}"));
    const Made made = make(100'000, 0, 10'000);
    REQUIRE(made.waits == 10'000);
    const Page page =
        exporter.wait_for(events_total, {{"comm", "fences"}, {"event", "destroy"}}, made.fences);
    check_begins_and_ends(page, made);
    // The kernel signals those at once that have been there for ten seconds, perhaps more of them
    // than the ring has room for. All of the table had room.
    const double lost =
        page.sum("gpusnoop_probe_events_lost_total", {{"probe", "fence"}, {"reason", "ring_full"}});
    CHECK(events(page, "signaled") + lost == made.fences);
    CHECK(fence_probe(page, "events_lost_total") == lost);
    CHECK(fence_probe(page, "entries_total") == fence_probe(page, "events_total") + lost);
}

TEST_CASE("the probe of fences is up, or says why not", "[kernel][core]") {
    require_bpf();
    Exporter exporter(fence_config("{}"));
    const Page page = exporter.scrape();
    const HttpAnswer start_page = http(exporter.port(), "/");
    // Where nothing makes fences, it has nothing but its own counts.
    CHECK_FALSE(page.has("gpusnoop_dma_fence_events_total"));
    if (fence_probe(page, "up") == 1) {
        CHECK(state_of(page, "fence") == "up");
        CHECK(fence_probe(page, "attached_functions") == 7);
        CHECK(exporter.log().find("tracing DMA fences") != std::string::npos);
        // The kernel takes a tenth of a second to detach from each.
        exporter.process().signal(SIGTERM);
        CHECK(exporter.process().wait() == 0);
        CHECK(exporter.log().find("a helper process detaches the probes on perf events") !=
              std::string::npos);
    } else {
        CHECK(state_of(page, "fence") == "unsupported");
        CHECK(fence_probe(page, "attached_functions") == 0);
        CHECK(start_page.body.find("dma_fence") != std::string::npos);
    }
}

TEST_CASE("where tracefs is not mounted, the probe of fences says how to mount it", "[kernel]") {
    require_bpf();
    const Exporter exporter(fence_config("{}"), {"unshare", "--mount", "sh", "-c",
                                                 "umount -a -t tracefs; exec \"$@\"", "sh"});
    CHECK(state_of(exporter.scrape(), "fence") == "unsupported");
    CHECK(http(exporter.port(), "/").body.find("mount -t tracefs") != std::string::npos);
    CHECK(exporter.log().find("level=ERROR") == std::string::npos);
}

TEST_CASE("each event of a fence is a line of the trace", "[.guest]") {
    require_vgem();
    TestModule().command("contexts");  // their numbers have more than 32 bits from now on
    Trace trace("fence", "{}", {"--comm=fen[c]es"});
    const Made made = make(6, 2);
    const auto of_event = [](const std::vector<nlohmann::json> &lines, const std::string &event) {
        return std::ranges::count_if(lines,
                                     [&](const auto &line) { return line["event"] == event; });
    };
    eventually("the fences to end",
               [&] { return of_event(trace.calls(), "destroy") == made.fences; });
    const auto lines = trace.finish();
    for (const std::string event : {"init", "signaled", "destroy"}) {
        CHECK(of_event(lines, event) == made.fences);
    }
    CHECK(of_event(lines, "wait_start") == made.waits);
    CHECK(of_event(lines, "wait_end") == made.waits);
    // What happened to each, in the order of the lines.
    std::map<std::pair<nlohmann::json, nlohmann::json>, std::string> lives;
    for (const auto &line : lines) {
        CAPTURE(line.dump());
        const std::string event = line["event"];
        const bool is_wait = event.starts_with("wait_");
        CHECK(line["driver"] == "vgem");
        CHECK(line["timeline"] == "unbound");
        CHECK(line["comm"] == "fences");
        // One of the waits is a child's.
        CHECK((is_wait || line["pid"] == lines.front()["pid"]));
        CHECK(line["tid"].is_null() == !is_wait);
        CHECK(line["context"] > std::uint64_t{2} * UINT32_MAX);
        CHECK(line["duration_ns"].is_null() == (event != "wait_end"));
        if (!is_wait && event != "enable_signal") {
            lives[{line["context"], line["seqno"]}] += event + " ";
        }
    }
    CHECK(std::cmp_equal(lives.size(), made.fences));
    for (const auto &[fence, life] : lives) {
        CHECK(life == "init signaled destroy ");
    }
}

// The driver virtio_gpu makes a fence without a number, and gives it one when it emits it. The
// trace has its programs at the tracepoints behind the exporter's, which changes the order of its
// own.
TEST_CASE("fences that get their numbers later are followed to their end", "[.guest]") {
    require_bpf();
    constexpr int fences = 50;
    if (run({standin("virtio_fences"), "--look"}).code == 3) {
        FAIL("this guest has no virtio_gpu");
    }
    const Exporter exporter(
        "cuda: {enabled: false}\ntargets: {comms: [\"virtio_fen[c]es\"]}\nfence: {}\n");
    Trace trace("fence", "{}", {"--comm=virtio_fen[c]es"});
    Process process({standin("virtio_fences"), std::to_string(fences)});
    REQUIRE(process.wait() == 0);

    const Labels of = {{"comm", "virtio_fences"}, {"driver", "virtio_gpu"}};
    const Page page =
        exporter.wait_for(events_total, {{"driver", "virtio_gpu"}, {"event", "destroy"}}, fences);
    for (const std::string event : {"init", "emit", "signaled", "destroy"}) {
        CAPTURE(event);
        CHECK(events(page, of, event) == fences);
    }
    CHECK(page.sum("gpusnoop_dma_fence_signal_latency_seconds_count", of) == fences);
    CHECK(page.sum("gpusnoop_dma_fence_signal_latency_seconds_sum", of) > 0);
    CHECK(fence_probe(page, "events_lost_total") == 0);
    CHECK(fence_probe(page, "entries_total") == fence_probe(page, "events_total"));

    eventually("the trace to have every fence's end", [&] {
        return std::ranges::count_if(trace.calls(), [](const auto &line) {
                   return line["event"] == "destroy";
               }) == fences;
    });
    std::map<std::string, int> lines;
    for (const auto &line : trace.finish()) {
        CAPTURE(line.dump());
        const std::string event = line["event"];
        lines[event]++;
        CHECK(line["pid"] == process.pid());
        CHECK(line["ppid"] == ::getpid());
        CHECK(line["driver"] == "virtio_gpu");
        CHECK(line["timeline"] != "unknown");
        CHECK((line["seqno"] == 0) == (event == "init"));
        CHECK(line["duration_ns"].is_null() == (event != "signaled"));
    }
    for (const std::string event : {"init", "emit", "signaled", "destroy"}) {
        CAPTURE(event);
        CHECK(lines[event] == fences);
    }
}

// More calls of functions than the exporter can take: what is lost is calls, and never the name of
// a process.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/calls_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

void sleep_for(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// A ring that a few calls fill, and that is drained once a second, or at a scrape.
std::string slowly_drained() {
    std::string text = calls_config({});
    const std::string off = "  enabled: false\n";
    text.insert(text.find(off) + off.size(), "  drain_interval: 1s\n");
    return text + "  ring_bytes: 4KiB\n  drain_interval: 1s\n";
}

std::vector<std::string> functions_pressure_calls(const std::string &comm,
                                                  const std::vector<std::string> &more) {
    std::vector<std::string> command{standin("calls"), "--scenario", "mix", "--name", comm};
    command.insert(command.end(), more.begin(), more.end());
    return command;
}

}  // namespace

TEST_CASE("a process that starts while calls are lost, and ends soon, has its name on the page",
          "[kernel]") {
    require_bpf();
    Exporter exporter(slowly_drained());
    const Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    for (int round = 0; round < 5; round++) {
        exporter.process().signal(SIGSTOP);
        REQUIRE(run(functions_pressure_calls("loud", {"--iterations", "1000"})).code == 0);
        // Their first calls find the ring full.
        std::vector<Process> brief;
        for (int i = 0; i < 4; i++) {
            brief.emplace_back(functions_pressure_calls("brief", {"--until-stopped"}));
        }
        sleep_for(200);
        // It drains the ring once, which has room for their next calls then. When it reads those,
        // /proc does not know the processes any more.
        exporter.process().signal(SIGCONT);
        sleep_for(50);
        exporter.process().signal(SIGSTOP);
        sleep_for(50);
        for (Process &one : brief) {
            one.signal(SIGTERM);
            CHECK(one.wait() == 0);
        }
        exporter.process().signal(SIGCONT);
        (void)exporter.scrape();
    }
    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_probe_events_lost_total",
                   {{"probe", "functions"}, {"reason", "ring_full"}}) > 0);
    CHECK(page.sum("gpusnoop_function_calls_total", {{"comm", "brief"}}) > 0);
    CHECK(page.sum("gpusnoop_function_calls_total", {{"comm", "unknown"}}) == 0);
}

// Interrupts in the place of a program's threads, against the kernel's own counts.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cctype>
#include <fstream>
#include <list>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/probe_state.h"

using namespace harness;

namespace {

constexpr auto interrupts = "gpusnoop_host_interrupts_total";
constexpr auto host_irq_seconds = "gpusnoop_host_interrupt_seconds_total";

// Of both files a line is a name and a number for each CPU.
template <typename Wanted>
double sum_in(const std::string &path, Wanted wanted) {
    std::ifstream file(path);
    double sum = 0;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name;
        words >> name;
        double number = 0;
        while (wanted(name) && words >> number) {
            sum += number;
        }
    }
    return sum;
}

double net_rx() {
    return sum_in("/proc/softirqs", [](const std::string &name) { return name == "NET_RX:"; });
}

// Of devices: they have numbers, the CPUs' own interrupts have letters.
double of_devices() {
    return sum_in("/proc/interrupts", [](const std::string &name) {
        return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) != 0;
    });
}

std::string host_irq_config() {
    return "cuda: {enabled: false}\ntargets: {comms: [\"li[v]es\"]}\n"
           "host: {irq: {enabled: true}}\n";
}

const Labels lives_soft = {
    {"comm", "lives"}, {"role", "gpu"}, {"kind", "soft"}, {"source", "net_rx"}};

}  // namespace

TEST_CASE("softirqs are of the process in whose place they run", "[kernel][core]") {
    require_bpf();
    const Exporter exporter(host_irq_config());
    Process process({standin("lives"), "wait", "datagrams", "3000", "wait"});
    process.wait_for_output("waiting 1");
    const double before = net_rx();
    process.go_on_to(2);
    const Page page = exporter.scrape();
    const double all = net_rx() - before;
    // Each datagram on loopback is one, but for those that ksoftirqd takes over.
    CAPTURE(all);
    CHECK(page.sum(interrupts, lives_soft) >= 2700);
    CHECK(page.sum(interrupts, lives_soft) <= all);
    CHECK(page.sum(host_irq_seconds, lives_soft) > 0);
    CHECK(state_of(page, "host_irq") == "up");
    const Labels probe = {{"probe", "host_irq"}};
    CHECK(page.sum("gpusnoop_probe_events_lost_total", probe) == 0);
    CHECK(page.sum("gpusnoop_probe_entries_total", probe) ==
          page.sum("gpusnoop_probe_events_total", probe) +
              page.sum("gpusnoop_probe_stale_calls_total", probe) +
              page.sum("gpusnoop_probe_in_flight_calls", probe));

    // Of another program, which is not followed.
    const Finished other =
        run({"sh", "-c", "exec -a other " + standin("lives") + " name other datagrams 3000"});
    INFO(other.output);
    CHECK(exporter.scrape().sum(interrupts, {{"comm", "other"}}) == 0);
    process.finish();
}

TEST_CASE("interrupts of devices are of the process in whose place they run", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_irq_config());
    const auto cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
    std::list<Process> burners;
    for (long cpu = 0; cpu < cpus; cpu++) {
        burners.emplace_back(std::vector<std::string>{standin("lives"), "pin", std::to_string(cpu),
                                                      "wait", "burn", "2000", "wait"});
        burners.back().wait_for_output("waiting 1");
    }
    const double before = of_devices();
    for (const Process &burner : burners) {
        burner.signal(SIGUSR1);
    }
    const Finished reads = run(
        {"dd", "if=" + exporter_binary(), "of=/dev/null", "bs=4096", "count=1000", "iflag=direct"});
    INFO(reads.output);
    REQUIRE(reads.code == 0);
    for (Process &burner : burners) {
        burner.wait_for_output("waiting 2");
    }
    const Labels hard = {{"comm", "lives"}, {"kind", "hard"}};
    const Page page = exporter.scrape();
    const double all = of_devices() - before;
    CAPTURE(all);
    REQUIRE(all >= 100);
    // Others have the CPUs at times, too.
    CHECK(page.sum(interrupts, hard) >= 0.02 * all);
    CHECK(page.sum(interrupts, hard) <= all);
    CHECK(page.sum(host_irq_seconds, hard) > 0);
    CHECK(page.sum(interrupts, {{"comm", "lives"}, {"kind", "soft"}}) > 0);  // the timers'
    for (Process &burner : burners) {
        burner.finish();
    }
}

// Exits of a virtual machine, against what KVM itself counts of it.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/harness/counting.h"
#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/probe_state.h"
#include "tests/harness/trace.h"

using namespace harness;

namespace {

constexpr auto host_kvm_exits = "gpusnoop_host_kvm_exits_total";
constexpr auto exit_seconds = "gpusnoop_host_kvm_exit_seconds_total";
constexpr auto userspace = "gpusnoop_host_kvm_userspace_exits_total";
constexpr auto wakeups = "gpusnoop_host_kvm_wakeups_total";
constexpr auto halt_seconds = "gpusnoop_host_kvm_halt_seconds_total";

// Some virtual machines have a KVM that does not answer.
void require_kvm() {
    require_bpf();
    const Finished tried = run({"timeout", "-s", "KILL", "20", standin("virtual"), "io", "1"});
    if (tried.code != 0) {
        SKIP("this test needs a KVM that runs virtual machines: " << tried.output);
    }
}

// What the program prints of its virtual CPU, by name.
std::map<std::string, double> counted_by_kvm(const Process &process) {
    std::map<std::string, double> counted;
    std::istringstream lines(process.output());
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string name;
        double number = 0;
        if (words >> name >> number) {
            counted[name] = number;
        }
    }
    return counted;
}

const Labels of_virtual = {{"comm", "virtual"}, {"role", "gpu"}};

Labels of_virtual_and(const std::string &label, const std::string &value) {
    Labels labels = of_virtual;
    labels[label] = value;
    return labels;
}

}  // namespace

TEST_CASE("exits of a virtual machine are what KVM counts", "[kernel][core]") {
    require_kvm();
    const Exporter exporter(
        "cuda: {enabled: false}\ntargets: {comms: [\"virtual\"]}\n"
        "host: {kvm: {enabled: true}}\n");
    Process process({standin("virtual"), "wait", "io", "1000", "halt", "40", "wait"});
    process.go_on_to(2);
    auto kvm = counted_by_kvm(process);
    Page page = exporter.scrape();
    INFO(process.output());
    CHECK(kvm["returns"] == 1001 + 41);
    CHECK(kvm["halt_exits"] >= 40);
    CHECK(page.sum(userspace, of_virtual_and("reason", "io")) == kvm["returns"]);
    CHECK(page.sum(userspace, of_virtual) == kvm["returns"]);
    // A halt that meets an interrupt ends at once, and is none.
    CHECK(page.sum(wakeups, of_virtual) >= 0.8 * kvm["halt_exits"]);
    CHECK(page.sum(wakeups, of_virtual) <= kvm["halt_exits"]);
    const double halted =
        (kvm["halt_wait_ns"] + kvm["halt_poll_success_ns"] + kvm["halt_poll_fail_ns"]) / 1e9;
    CHECK(std::abs(page.sum(halt_seconds, of_virtual) - halted) <= 0.1 * halted);
    // A KVM without hardware emulates real mode, and does not enter such a guest.
    if (in_guest()) {
        // The last exit has not been followed by an entry.
        CHECK(page.sum(host_kvm_exits, of_virtual) >= kvm["exits"] - 1);
        CHECK(page.sum(host_kvm_exits, of_virtual) <= kvm["exits"]);
        CHECK(page.sum(exit_seconds, of_virtual) > 0);
        CHECK(page.sum(exit_seconds, of_virtual) <= kvm["wall"] / 1e9 - 0.9 * halted);
    }
    CHECK(state_of(page, "host_kvm") == "up");
    const Labels probe = {{"probe", "host_kvm"}};
    CHECK(page.sum("gpusnoop_probe_events_lost_total", probe) == 0);
    CHECK(page.sum("gpusnoop_probe_entries_total", probe) ==
          page.sum("gpusnoop_probe_events_total", probe));
    process.finish();
}

TEST_CASE("without the name of a process, the log says that no virtual machine counts",
          "[kernel]") {
    require_kvm();
    const Exporter exporter("cuda: {enabled: false}\nhost: {kvm: {enabled: true}}\n");
    CHECK(count(exporter.log(), "host.kvm counts nothing") == 1);
}

TEST_CASE("a trace of virtual machines has each exit to their process", "[kernel]") {
    require_kvm();
    Trace trace("kvm", "", {"--comm=virtual"});
    Process process({standin("virtual"), "wait", "io", "50", "wait"});
    process.go_on_to(2);
    eventually("all lines", [&] { return trace.calls().size() >= 51; });
    process.finish();
    const auto written = trace.finish();
    CHECK(written.size() == 51);
    for (const nlohmann::json &line : written) {
        CAPTURE(line.dump());
        CHECK(line.at("comm") == "virtual");
        CHECK(line.at("pid") == process.pid());
        CHECK(line.at("reason") == "io");
        CHECK(line.at("polled").is_null());
    }
}

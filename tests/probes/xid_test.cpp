// Xids and SXids: lines that the test writes to /dev/kmsg, against how many it wrote. In the guests
// of tests/vm, a module logs such lines itself, and has the driver's tracepoints.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/maps/wakeups.h"
#include "exporter/probes/frame/pipeline.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/xid/probe.h"
#include "exporter/series/family.h"
#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"

using namespace harness;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

const std::string xids = "gpusnoop_gpu_xid_total";
const std::string sxids = "gpusnoop_nvswitch_sxid_total";
const std::string ignored = "gpusnoop_xid_lines_ignored_total";

// Of a device that no machine has, so that these lines are the test's.
const std::string device = "fedc:3b:00.0";
const Labels of_device = {{"device", device}};

// One write is one line. The kernel limits the lines of an open file to ten in five seconds, unless
// it was told otherwise; so each line is written through a file of its own.
void write_line(const std::string &text) {
    const gpusnoop::Fd file(::open("/dev/kmsg", O_WRONLY | O_CLOEXEC));
    if (!file) {
        missing("to write to /dev/kmsg");
    }
    // At the level "info", so that it is not shown on a console. Without a newline, readers of
    // /dev/kmsg get it only when another line is logged.
    const std::string line = "<6>" + text + "\n";
    REQUIRE(::write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()));
}

std::string xid(int code, const std::string &text) {
    return "NVRM: Xid (PCI:fedc:3b:00): " + std::to_string(code) + ", " + text;
}

std::string sxid(const std::string &text) {
    return "nvidia-nvswitch0: SXid (PCI:" + device + "): 20034, " + text;
}

std::string xid_config(const std::string &xid) {
    return "cuda: {enabled: false}\nxid: " + xid + "\n";
}

double xid_probe(const Page &page, const std::string &what) {
    return page.sum("gpusnoop_probe_" + what, {{"probe", "xid"}});
}

json xid_document(const Exporter &exporter, const std::string &query = "") {
    const HttpAnswer answer =
        http(exporter.port(), "/api/v1/xids?device=" + device + (query.empty() ? "" : "&" + query));
    REQUIRE(answer.status == 200);
    return json::parse(answer.body);
}

std::vector<std::string> sources() {
    return {"printk", "kmsg"};
}

// Counts the drains of the probe that it passes everything to.
class Drained final : public gpusnoop::probes::Probe {
public:
    explicit Drained(std::unique_ptr<Probe> probe) : probe_(std::move(probe)) {}
    std::atomic<int> drains = 0;

    gpusnoop::Result<> start() override { return probe_->start(); }
    void drain() override {
        probe_->drain();
        drains++;
    }
    [[nodiscard]] gpusnoop::ebpf::Wakeups wakeups() const override { return probe_->wakeups(); }
    std::vector<gpusnoop::series::FamilySnapshot> report() override { return probe_->report(); }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override { return {}; }
    [[nodiscard]] gpusnoop::probes::Health health() const override { return probe_->health(); }

private:
    const std::unique_ptr<Probe> probe_;
};

}  // namespace

TEST_CASE("an Xid wakes a pipeline that rests", "[kernel][core]") {
    using gpusnoop::probes::XidConfig;
    require_bpf();
    for (const auto source : {XidConfig::Source::printk, XidConfig::Source::kmsg}) {
        CAPTURE(source);
        gpusnoop::config::Config config;
        config.set(XidConfig{.source = source, .count_written_lines = true});
        Drained probe(gpusnoop::probes::xid_kind.make(config, {}, {}));
        REQUIRE(probe.start());
        // It does not drain by itself.
        gpusnoop::probes::Pipeline pipeline({&probe}, 1ms, {},
                                            {.is_now = [] { return true; }, .longest = 1h});
        for (int lines = 1; lines <= 3; lines++) {
            const int drains = probe.drains;
            write_line(xid(48, "pid='<unknown>', name=<unknown>"));
            const auto until = std::chrono::steady_clock::now() + 30s;
            while (probe.drains == drains && std::chrono::steady_clock::now() < until) {
                std::this_thread::sleep_for(1ms);
            }
            // Each line of the log makes /dev/kmsg readable.
            CHECK(probe.drains >= lines);
            CHECK((source == XidConfig::Source::kmsg || probe.drains == lines));
        }
        const auto snapshot = pipeline.snapshot();
        REQUIRE(snapshot);
        std::uint64_t counted = 0;
        for (const auto &family : snapshot->families) {
            if (family.description->name == xids) {
                counted = std::accumulate(family.values.begin(), family.values.end(), counted);
            }
        }
        CHECK(counted == 3);
    }
}

TEST_CASE("Xids in the kernel's log are counted to the one", "[kernel][core]") {
    require_bpf();
    for (const std::string &source : sources()) {
        CAPTURE(source);
        const Exporter exporter(xid_config("{count_written_lines: true, source: " + source + "}"));
        // A process that waits, which the reports name.
        const Process named({"/bin/sh", "-c", "echo runs; kill -STOP $$; exit 0"});
        named.wait_for_output("runs");
        const std::string pid = std::to_string(named.pid());
        for (int i = 0; i < 25; i++) {
            write_line(xid(31, "pid=" + pid + ", name=python3, Ch 00000008, intr 00000000."));
        }
        for (int i = 0; i < 7; i++) {
            write_line(xid(79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."));
        }
        write_line(xid(43, "pid=2147483647, name=gone, Ch 00000010"));
        for (int i = 0; i < 3; i++) {
            write_line(sxid("Fatal, Link 30 LTSSM Fault Up"));
            write_line(sxid("Severity 1 Engine instance 30 Sub-engine instance 00"));
            write_line(sxid("Data {0x00000001, 0x00000001}"));
        }
        const Page page = exporter.wait_for(sxids, of_device, 3);
        Labels of = of_device;
        of["class"] = "application";
        CHECK(page.sum(xids, of) == 25);
        of["comm"] = "sh";
        CHECK(page.sum(xids, of) == 25);
        of = of_device;
        of["class"] = "hardware";
        of["xid"] = "79";
        of["comm"] = "unknown";
        CHECK(page.sum(xids, of) == 7);
        of = of_device;
        of["class"] = "information";
        of["comm"] = "gone";
        CHECK(page.sum(xids, of) == 1);
        CHECK(page.sum(xids, of_device) == 25 + 7 + 1);
        CHECK(page.sum(sxids, {{"device", device}, {"sxid", "20034"}, {"severity", "fatal"}}) == 3);
        CHECK(page.sum(ignored, {{"reason", "continued"}}) >= 6);
        CHECK(xid_probe(page, "events_total") >= 25 + 7 + 1 + 9);
        CHECK(xid_probe(page, "entries_total") == xid_probe(page, "events_total"));
        CHECK(xid_probe(page, "events_lost_total") == 0);

        const json last = xid_document(exporter);
        REQUIRE(last["xids"].size() == 25 + 7 + 1 + 3);
        CHECK(last["xids"][0]["kind"] == "sxid");
        CHECK(last["xids"][3]["comm"] == "gone");
        CHECK(last["xids"][4]["text"] ==
              "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
        CHECK(xid_document(exporter, "pid=" + pid)["xids"].size() == 25);
        const std::string front = http(exporter.port(), "/").body;
        CHECK(front.find("GPU has fallen off the bus.") != std::string::npos);
    }
}

TEST_CASE("a process that becomes another program is counted as both") {
    require_bpf();
    const Exporter exporter(xid_config("{count_written_lines: true}"));
    Process changes({"/bin/sh", "-c", "echo is a shell; kill -STOP $$; exec sleep 100"});
    changes.wait_for_output("is a shell");
    const std::string text = "pid=" + std::to_string(changes.pid()) + ", name=sh, Ch 00000008";
    write_line(xid(31, text));
    (void)exporter.wait_for(xids, {{"device", device}, {"comm", "sh"}}, 1);
    eventually("the shell to become another program", [&] {
        changes.signal(SIGCONT);
        return read_file("/proc/" + std::to_string(changes.pid()) + "/comm") == "sleep\n";
    });
    write_line(xid(31, text));
    (void)exporter.wait_for(xids, {{"device", device}, {"comm", "sleep"}}, 1);
}

TEST_CASE("two capabilities are enough to count Xids and to know what programs write") {
    require_bpf();
    const std::vector<std::string> through = {"setpriv", "--bounding-set=-all,+bpf,+perfmon"};
    for (const bool counted : {true, false}) {
        const Exporter exporter(xid_config(counted ? "{count_written_lines: true, source: printk}"
                                                   : "{source: printk}"),
                                through);
        write_line(xid(79, "GPU has fallen off the bus."));
        if (counted) {
            (void)exporter.wait_for(xids, of_device, 1);
        } else {
            (void)exporter.wait_for(ignored, {{"reason", "written"}}, 1);
        }
    }
}

TEST_CASE("lines that a program writes are no Xids") {
    require_bpf();
    for (const std::string &source : sources()) {
        CAPTURE(source);
        const Exporter exporter(xid_config("{source: " + source + "}"));
        for (int i = 0; i < 5; i++) {
            write_line(xid(79, "GPU has fallen off the bus."));
            write_line(sxid("Fatal, Link 30 LTSSM Fault Up"));
        }
        const Page page = exporter.wait_for(ignored, {{"reason", "written"}}, 10);
        CHECK(!page.has(xids, of_device));
        CHECK(!page.has(sxids, of_device));
        CHECK(xid_document(exporter)["xids"].empty());
    }
}

TEST_CASE("lines from before the exporter's start are not counted") {
    require_bpf();
    write_line(xid(48, "from before"));
    for (const std::string &source : sources()) {
        CAPTURE(source);
        const Exporter exporter(xid_config("{count_written_lines: true, source: " + source + "}"));
        write_line(xid(62, "from now"));
        const Page page = exporter.wait_for(xids, of_device, 1);
        CHECK(page.sum(xids, {{"device", device}, {"xid", "62"}}) == 1);
    }
}

TEST_CASE("text in a report is shown as text") {
    require_bpf();
    const Exporter exporter(xid_config("{count_written_lines: true}"));
    write_line(xid(13, "pid=2147483647, name=<b>\"\\\x01\xff, <script>alert(1)</script>"));
    (void)exporter.wait_for(xids, of_device, 1);
    const json last = xid_document(exporter)["xids"];
    REQUIRE(last.size() == 1);
    CHECK(last[0]["comm"].get<std::string>().starts_with("<b>\"\\"));
    CHECK(last[0]["text"].get<std::string>().ends_with("<script>alert(1)</script>"));
    CHECK(http(exporter.port(), "/").body.find("<script>") == std::string::npos);
    CHECK(http(exporter.port(), "/").body.find("&lt;script&gt;") != std::string::npos);
}

namespace {

// As the module of the guests reports it: of the machine's display controller.
const Labels of_guest = {{"device", "0000:00:10.0"}};

void check_reports(const Exporter &exporter, const TestModule &module, double before) {
    module.command("xid 5 79");
    module.command("xid 40 13");
    module.command("sxid 3 20034");
    const Page page = exporter.wait_for(sxids, of_guest, before * 3 + 3);
    CHECK(page.sum(xids, of_guest) == before * 45 + 45);
    Labels of = of_guest;
    of["xid"] = "79";
    of["class"] = "hardware";
    CHECK(page.sum(xids, of) == before * 5 + 5);
    of["comm"] = "probes_tests";
    CHECK(page.sum(xids, of) == before * 5 + 5);
    CHECK(page.sum(ignored, {{"reason", "written"}}) == 0);
    CHECK(xid_probe(page, "events_lost_total") == 0);
}

}  // namespace

TEST_CASE("Xids that the driver logs are counted while it comes and goes", "[.guest]") {
    for (const std::string source : {"auto", "printk", "kmsg"}) {
        CAPTURE(source);
        const Exporter exporter(xid_config("{source: " + source + "}"));
        for (const double before : {0, 1}) {
            const TestModule module;
            check_reports(exporter, module, before);
        }
    }
}

TEST_CASE("the driver's tracepoints stand for its lines", "[.guest]") {
    const TestModule module;
    const Exporter exporter(xid_config("{source: driver}"));
    CHECK(exporter.scrape().sum("gpusnoop_probe_attached_functions", {{"probe", "xid"}}) == 3);
    check_reports(exporter, module, 0);
    // Which is why they are not the default.
    CHECK(run({"/sbin/rmmod", "gpusnoop_test"}).code != 0);
}

TEST_CASE("the driver's tracepoints are attached to when the driver is loaded", "[.guest]") {
    Exporter exporter(xid_config("{source: driver}") + "discovery: {rescan_interval: 1s}\n");
    CHECK(exporter.scrape().sum("gpusnoop_probe_attached_functions", {{"probe", "xid"}}) == 1);
    const TestModule module;
    eventually("the exporter to attach to the driver", [&] {
        return exporter.scrape().sum("gpusnoop_probe_attached_functions", {{"probe", "xid"}}) == 3;
    });
    check_reports(exporter, module, 0);
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
}

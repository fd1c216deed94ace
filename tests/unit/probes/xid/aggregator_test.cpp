// What comes of lines of the kernel's log, and of records of the driver's tracepoints.
#include "exporter/probes/xid/aggregator.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/xid.h"
#include "exporter/system/machine.h"
#include "tests/unit/probes/driver_records.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr const char *xid_nobody = "2147483647";  // no process has this id

using Values = std::map<series::LabelValues, std::vector<std::uint64_t>>;

struct XidFixture {
    explicit XidFixture(bool pid_label = false)
        : aggregator({.budget = [](std::string_view) { return 1000U; },
                      .pid_label = pid_label,
                      .retention = 1min,
                      .look_up =
                          [](ProcessIdentity &one) {
                              one.comm = "known";
                              one.slurm_job_id = "7";
                              return one.key.tgid == static_cast<std::uint32_t>(::getpid());
                          }}) {
        aggregator.set_gpus(
            {{.index = 2, .uuid = "", .pci_bus_id = "00000000:3B:00.0", .name = ""}});
    }

    bool line(const std::string &text, bool written = false) {
        return aggregator.on_line(text, written, now_on(CLOCK_MONOTONIC));
    }
    [[nodiscard]] Values values(const std::string &name) const {
        return values_of(aggregator.families().snapshots(), name);
    }
    [[nodiscard]] nlohmann::json document(const QueryParameters &parameters = {}) const {
        const auto written = xids_page(aggregator.history().list()).write(parameters);
        REQUIRE(written);
        return nlohmann::json::parse(written->text);
    }

    XidAggregator aggregator;
};

xid_record record(std::uint32_t source, std::uint32_t code, const std::string &text) {
    xid_record record{};
    record.source = source;
    record.device = pcie_device(0, 0x3b, 0);
    record.code = code;
    record.text_bytes = static_cast<std::uint32_t>(text.size());
    std::memcpy(record.text, text.data(), std::min(text.size(), sizeof(record.text)));
    return record;
}

bool feed(XidFixture &fixture, const xid_record &one) {
    return fixture.aggregator.on_record(std::as_bytes(std::span(&one, 1)));
}

const std::string bus = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.";

}  // namespace

TEST_CASE("Xids are counted by GPU, code, class and process") {
    XidFixture fixture;
    const std::string own = std::to_string(::getpid());
    CHECK(fixture.line(bus));
    CHECK(fixture.line(bus));
    CHECK(fixture.line("NVRM: Xid (PCI:0000:3b:00): 13, pid=" + own + ", name=python3, Ch 8"));
    CHECK(fixture.line("NVRM: Xid (PCI:0000:5e:00): 31, pid=" + std::string(xid_nobody) +
                       ", name=gone, Ch 8"));
    CHECK(fixture.values("gpu_xid_total") ==
          Values{{{"unknown", "", "", "", "2", "0000:3b:00.0", "79", "hardware"}, {2}},
                 {{"known", "", "", "7", "2", "0000:3b:00.0", "13", "application"}, {1}},
                 {{"gone", "", "", "7", "unknown", "0000:5e:00.0", "31", "application"}, {1}}});
}

TEST_CASE("with the label pid, an Xid without a process has one too") {
    XidFixture fixture(true);
    CHECK(fixture.line(bus));
    CHECK(fixture.values("gpu_xid_total") ==
          Values{{{"unknown", "", "", "", "unknown", "2", "0000:3b:00.0", "79", "hardware"}, {1}}});
}

TEST_CASE("an SXid counts once, though it has several lines") {
    XidFixture fixture;
    const std::string start = "nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, ";
    CHECK(fixture.line(start + "Non-fatal, Link 32 egress non-posted PRIV error (First)"));
    CHECK(fixture.line(start + "Severity 0 Engine instance 32 Sub-engine instance 00"));
    CHECK(fixture.line(start + "Data {0x000001c0, 0x00bd5c8a}"));
    CHECK(fixture.values("nvswitch_sxid_total") ==
          Values{{{"0000:84:00.0", "12028", "nonfatal"}, {1}}});
    CHECK(fixture.values("xid_lines_ignored_total") == Values{{{"continued"}, {2}}});
    CHECK(fixture.document()["xids"].size() == 1);
}

TEST_CASE("lines that programs wrote are not counted, unless a test says so") {
    XidFixture fixture;
    CHECK(!fixture.line(bus, true));
    CHECK(fixture.values("gpu_xid_total").empty());
    CHECK(fixture.values("xid_lines_ignored_total") == Values{{{"written"}, {1}}});
    CHECK(fixture.document()["xids"].empty());
    fixture.aggregator.count_written_lines();
    CHECK(fixture.line(bus, true));
    CHECK(fixture.values("gpu_xid_total").size() == 1);
}

TEST_CASE("a line that cannot be read is counted as that, and other lines are not") {
    XidFixture fixture;
    CHECK(!fixture.line("NVRM: Xid (PCI:?): 79, x"));
    CHECK(!fixture.line("NVRM: loading NVIDIA UNIX Open Kernel Module"));
    CHECK(!fixture.line("nvidia-nvswitch0: using MSI"));
    CHECK(fixture.values("xid_lines_ignored_total") == Values{{{"malformed"}, {1}}});
}

TEST_CASE("records of the tracepoints count like lines") {
    XidFixture fixture;
    CHECK(feed(fixture, record(XID_LOG, 0, bus)));
    CHECK(feed(fixture, record(XID_GPU, 79, "pid='<unknown>', name=<unknown>, fallen")));
    CHECK(feed(fixture, record(XID_SWITCH, 20'034, "Fatal, Link 30 LTSSM Fault Up")));
    CHECK(fixture.values("gpu_xid_total") ==
          Values{{{"unknown", "", "", "", "2", "0000:3b:00.0", "79", "hardware"}, {2}}});
    CHECK(fixture.values("nvswitch_sxid_total") ==
          Values{{{"0000:3b:00.0", "20034", "fatal"}, {1}}});
}

TEST_CASE("bytes that are no record are refused") {
    XidFixture fixture;
    CHECK(!fixture.aggregator.on_record({}));
    CHECK(!feed(fixture, record(XID_SOURCE_COUNT, 79, "")));
    xid_record longer = record(XID_LOG, 0, bus);
    longer.text_bytes = XID_TEXT_BYTES + 1;
    CHECK(!feed(fixture, longer));
    CHECK(fixture.values("gpu_xid_total").empty());
}

TEST_CASE("the series of a process that has ended expire") {
    XidFixture fixture;
    CHECK(fixture.line("NVRM: Xid (PCI:0000:3b:00): 13, pid=" + std::string(xid_nobody) +
                       ", name=gone, Ch 8"));
    const auto now = now_on(CLOCK_MONOTONIC);
    (void)fixture.aggregator.processes().tidy(now + 1s);
    CHECK(fixture.values("gpu_xid_total").size() == 1);
    (void)fixture.aggregator.processes().tidy(now + 1h);
    CHECK(fixture.values("gpu_xid_total").empty());
}

TEST_CASE("the document has the last 100 reports, the newest first") {
    XidFixture fixture;
    for (int i = 1; i <= 130; i++) {
        CHECK(fixture.line("NVRM: Xid (PCI:0000:3b:00): " + std::to_string(i) +
                           ", pid=" + xid_nobody + ", name=job, number " + std::to_string(i)));
    }
    const nlohmann::json all = fixture.document();
    REQUIRE(all["xids"].size() == max_kept_xids);
    CHECK(all["left_out"] == 0);
    const nlohmann::json &newest = all["xids"][0];
    CHECK(newest["kind"] == "xid");
    CHECK(newest["xid"] == 130);
    CHECK(newest["class"] == "application");
    CHECK(newest["gpu"] == "2");
    CHECK(newest["gpu_instance"].is_null());
    CHECK(newest["device"] == "0000:3b:00.0");
    CHECK(newest["pid"] == 2'147'483'647);
    CHECK(newest["comm"] == "job");
    CHECK(newest["text"] == "pid=2147483647, name=job, number 130");
    CHECK(newest["time"].get<std::string>().size() ==
          std::string("2026-03-01T09:30:00.000000001Z").size());
    CHECK(all["xids"].back()["xid"] == 31);
    CHECK(fixture.aggregator.history().overview().count == 130);
    CHECK(fixture.aggregator.history().overview().last.size() == max_overview_xids);
}

TEST_CASE("the parameters of the document choose reports") {
    XidFixture fixture;
    CHECK(fixture.line(bus));
    CHECK(fixture.line("NVRM: Xid (PCI:0000:5e:00): 31, pid=5, name=job, Ch 8"));
    CHECK(fixture.line("nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Fatal, Link 32"));
    CHECK(fixture.document({{"device", "0000:3b:00.0"}})["xids"].size() == 1);
    CHECK(fixture.document({{"xid", "31"}})["xids"].size() == 1);
    CHECK(fixture.document({{"pid", "5"}})["xids"].size() == 1);
    CHECK(fixture.document({{"pid", "6"}})["xids"].empty());
    const nlohmann::json one = fixture.document({{"limit", "1"}});
    REQUIRE(one["xids"].size() == 1);
    CHECK(one["xids"][0]["kind"] == "sxid");
    CHECK(one["xids"][0]["severity"] == "fatal");
    CHECK(!one["xids"][0].contains("gpu"));
    CHECK(one["left_out"] == 2);
    for (const auto &[name, value] : {std::pair("pid", "x"), {"xid", "-1"}, {"color", "red"}}) {
        const auto refused = xids_page({}).write({{name, value}});
        REQUIRE(!refused);
        CHECK(refused.error().message.find(name) != std::string::npos);
    }
}

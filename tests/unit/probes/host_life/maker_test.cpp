// Reports of what several probes know.
#include "exporter/probes/host_life/reports/maker.h"

#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

std::uint64_t maker_ns(nanoseconds time) {
    return static_cast<std::uint64_t>(time.count());
}

// It began at 10 s, was followed from 11 s on, made its first CUDA call at 12 s, and ended at 112
// s.
GpuProcessTotals maker_totals(std::uint32_t pid = 7) {
    GpuProcessTotals totals{.ended = 112s};
    totals.process.key = {pid, maker_ns(12s)};
    totals.process.comm = "train";
    totals.process.pod_uid = "pod";
    totals.held = {{"0", {.peak_bytes = 900, .byte_seconds = 50'000, .unfreed_bytes = 30}}};
    totals.launches = 5;
    totals.errors = 2;
    totals.copied_bytes = {{"d2h", 40}, {"h2d", 70}};
    return totals;
}

life_exit_record maker_exit(std::uint32_t pid = 7) {
    life_exit_record record{};
    record.head = {
        .at_ns = maker_ns(112s), .since_ns = maker_ns(11s), .tgid = pid, .type = LIFE_EXIT};
    record.reasons = FOLLOWED_CUDA;
    record.wait_status = SIGKILL;
    record.lifetime_ns = maker_ns(102s);
    record.cuda_since_ns = maker_ns(12s);
    return record;
}

struct MakerFixture {
    ReportFactsPtr facts = std::make_shared<ReportFacts>();
    std::vector<JobReport> reports;
    ReportMaker maker{
        facts,
        {.node = {.cgroup_path = "/nonexistent",
                  .cgroups_of = [](std::uint32_t) { return std::string(); },
                  .knows = [](const ProcessKey &) { return false; }},
         .started = at(1s),
         .on_report = [this](const JobReport &report) { reports.push_back(report); }}};

    static JobOwners::Moment at(nanoseconds monotonic) {
        return {.monotonic = monotonic, .realtime = monotonic + 1'000'000s};
    }
    JobReport report_of(GpuProcessTotals totals) {
        facts->add(std::move(totals));
        maker.make(at(113s));
        maker.make(at(120s));
        REQUIRE(reports.size() == 1);
        return reports.front();
    }
};

}  // namespace

TEST_CASE("the report of a process has what each probe counted of it") {
    MakerFixture fixture;
    fixture.facts->sources() = {.host_time = true, .functions = true, .in_flight = true};
    fixture.facts->add(maker_totals());
    fixture.maker.make(MakerFixture::at(113s));
    // These come later.
    fixture.maker.on_exit(maker_exit());
    fixture.facts->add_waited({7, maker_ns(11s)}, {.time = 1s}, 113s);
    fixture.facts->add_waited({7, maker_ns(11s)}, {.time = 9s}, 114s);
    fixture.facts->add_slow(7, 4, 114s);
    fixture.facts->add_hanging(7, 114s);
    fixture.maker.make(MakerFixture::at(116s));
    CHECK(fixture.reports.empty());
    fixture.maker.make(MakerFixture::at(117s));
    REQUIRE(fixture.reports.size() == 1);
    const JobReport &report = fixture.reports.front();
    CHECK(report.kind == JobReport::Kind::process);
    CHECK(report.pid == 7);
    CHECK(report.names.comm == "train");
    CHECK(report.pod_uid == "pod");
    CHECK(report.ended == 1'000'112s);
    CHECK(report.lasted == 102s);
    CHECK(report.processes == 1);
    CHECK(report.gpus.at("0").peak_bytes == 900);
    CHECK(report.gpus.at("0").mean_bytes == 500);  // in 100 s
    CHECK(report.gpus.at("0").unfreed_bytes == 30);
    CHECK(report.launches == 5);
    CHECK(report.errors == 2);
    CHECK(report.copied_bytes == std::map<std::string, std::uint64_t>{{"d2h", 40}, {"h2d", 70}});
    CHECK(report.waited == nanoseconds(9s));
    CHECK(report.slow_calls == 4U);
    CHECK(report.hanging_calls == 1U);
    CHECK(report.causes == std::map<std::string, std::uint64_t>{{"SIGKILL", 1}});
    CHECK(report.at_least == JobReport::AtLeast{});
    fixture.maker.make(MakerFixture::at(200s));
    CHECK(fixture.reports.size() == 1);
}

TEST_CASE("what no probe counts is unknown, and what nobody handed over is none") {
    MakerFixture fixture;
    fixture.facts->add_waited({7, maker_ns(11s)}, {.time = 9s}, 112s);
    const JobReport unknown = fixture.report_of(maker_totals());
    CHECK_FALSE(unknown.waited);
    CHECK_FALSE(unknown.slow_calls);
    CHECK_FALSE(unknown.hanging_calls);
    CHECK(unknown.causes.empty());  // its end was not recorded
    CHECK(unknown.lasted == 100s);
    CHECK(unknown.at_least == JobReport::AtLeast{.lasted = true});

    MakerFixture other;
    other.facts->sources() = {.host_time = true, .functions = true, .in_flight = true};
    other.maker.on_exit(maker_exit());
    const JobReport none = other.report_of(maker_totals());
    CHECK_FALSE(none.waited);  // it submitted work
    CHECK(none.slow_calls == 0U);
    CHECK(none.hanging_calls == 0U);
    CHECK(none.at_least == JobReport::AtLeast{});

    MakerFixture idle;
    idle.facts->sources().host_time = true;
    idle.maker.on_exit(maker_exit());
    GpuProcessTotals totals = maker_totals();
    totals.launches = 0;
    totals.copied_bytes.clear();
    CHECK(idle.report_of(totals).waited == nanoseconds(0s));
}

TEST_CASE("incomplete knowledge makes numbers of a process lower bounds") {
    GpuProcessTotals totals = maker_totals();
    JobReport::AtLeast expected;
    SECTION("of its memory") {
        totals.is_memory_complete = false;
        expected.memory = true;
    }
    SECTION("of its calls") {
        totals.are_calls_complete = totals.are_launches_complete = false;
        expected.calls = expected.launches = expected.slow = true;
    }
    SECTION("of its launches") {
        totals.are_launches_complete = false;
        expected.launches = true;
    }
    SECTION("of the host") {
        expected.waited = true;
    }
    MakerFixture fixture;
    fixture.facts->sources().host_time = true;
    fixture.maker.on_exit(maker_exit());
    fixture.facts->add_waited({7, maker_ns(11s)}, {.time = 9s, .is_complete = !expected.waited},
                              112s);
    CHECK(fixture.report_of(totals).at_least == expected);
}

TEST_CASE("an end belongs to the process that made the calls") {
    MakerFixture fixture;
    // Another process that had the number, long before.
    life_exit_record former = maker_exit();
    former.cuda_since_ns = maker_ns(2s);
    former.wait_status = 0;
    former.head.at_ns = maker_ns(5s);
    fixture.maker.on_exit(former);
    // The same, whose threads with calls ended after it was recorded.
    former.cuda_since_ns = 0;
    fixture.maker.on_exit(former);
    // Its threads with calls ended later, too.
    life_exit_record exit = maker_exit();
    exit.cuda_since_ns = 0;
    fixture.maker.on_exit(exit);
    // No GPU process.
    life_exit_record worker = maker_exit(8);
    worker.reasons = FOLLOWED_CHILD;
    fixture.maker.on_exit(worker);
    CHECK(fixture.report_of(maker_totals()).causes.contains("SIGKILL"));
    fixture.reports.clear();
    CHECK(fixture.report_of(maker_totals(8)).causes.empty());
}

TEST_CASE("a process that becomes another program is reported, and the next one again") {
    MakerFixture fixture;
    follow_record exec{};
    exec.head = {
        .at_ns = maker_ns(112s), .since_ns = maker_ns(11s), .tgid = 7, .type = FOLLOW_EXECED};
    exec.reasons = FOLLOWED_CUDA;
    fixture.maker.on_exec(exec);
    const JobReport first = fixture.report_of(maker_totals());
    CHECK(first.causes.contains("exec"));
    CHECK(first.lasted == 100s);
    CHECK(first.at_least == JobReport::AtLeast{.lasted = true});
    fixture.reports.clear();
    life_exit_record exit = maker_exit();
    exit.head.at_ns = maker_ns(150s);
    exit.cuda_since_ns = maker_ns(130s);
    fixture.maker.on_exit(exit);
    GpuProcessTotals next = maker_totals();
    next.process.key.since_ns = maker_ns(130s);
    next.ended = 150s;
    CHECK(fixture.report_of(next).causes.contains("SIGKILL"));
}

TEST_CASE("a flood of short processes keeps no more than a few waiting, and each is reported") {
    MakerFixture fixture;
    constexpr std::size_t many = ReportMaker::most_waiting + 1'000;
    for (std::size_t i = 0; i < many; i++) {
        fixture.facts->add(maker_totals(static_cast<std::uint32_t>(100 + i)));
        fixture.maker.on_exit(maker_exit(static_cast<std::uint32_t>(100 + i)));
    }
    fixture.maker.make(MakerFixture::at(113s));
    CHECK(fixture.reports.size() == 1'000);
    fixture.maker.make(MakerFixture::at(117s));
    CHECK(fixture.reports.size() == many);
    CHECK(fixture.reports.back().causes.contains("SIGKILL"));
}

TEST_CASE("the owners of a process are reported after it") {
    MakerFixture fixture;
    GpuProcessTotals totals = maker_totals();
    totals.process.container = std::string(64, 'a');
    CHECK(fixture.report_of(totals).kind == JobReport::Kind::process);
    fixture.maker.make(MakerFixture::at(200s));
    REQUIRE(fixture.reports.size() == 2);
    CHECK(fixture.reports.back().kind == JobReport::Kind::container);
    CHECK(fixture.reports.back().launches == 5);
}

TEST_CASE("nothing is kept for reports that nobody makes") {
    ReportFacts facts;
    facts.add(maker_totals());
    facts.add_slow(7, 1, 1s);
    CHECK(facts.take().empty());
    CHECK_FALSE(facts.take_slow(7));
    facts.want();
    facts.add_slow(7, 1, 1s);
    facts.add_slow(7, 2, 2s);
    facts.add_slow(8, 2, 2s);
    CHECK(facts.take_slow(7) == 3U);
    CHECK_FALSE(facts.take_slow(7));
    facts.forget_old(100s);
    CHECK_FALSE(facts.take_slow(8));
    for (std::uint32_t pid = 1; pid <= 20'000; pid++) {
        facts.add_hanging(pid, 100s);
    }
    CHECK(facts.take_hanging(1) == 1U);
    CHECK_FALSE(facts.take_hanging(20'000));
}

TEST_CASE("reports of processes push out none of containers") {
    JobReportHistory history(2);
    for (int i = 1; i <= 4; i++) {
        history.add({.kind = JobReport::Kind::container, .ended = std::chrono::seconds(i)});
        history.add({.ended = std::chrono::seconds(10 * i)});
    }
    std::vector<nanoseconds> ended;
    for (const JobReport &report : history.list()) {
        ended.push_back(report.ended);
    }
    CHECK(ended == std::vector<nanoseconds>{40s, 30s, 4s, 3s});
    // The page at / shows a few of both.
    JobReportHistory more(10);
    for (int i = 1; i <= 5; i++) {
        more.add({.kind = JobReport::Kind::container, .ended = std::chrono::seconds(i)});
        more.add({.ended = std::chrono::seconds(10 * i), .pid = 7});
    }
    ended.clear();
    for (const JobReportOverview &report : more.overview().last) {
        ended.push_back(report.ended);
    }
    CHECK(ended == std::vector<nanoseconds>{50s, 40s, 30s, 5s, 4s, 3s});
    CHECK(more.overview().count == 10);
    CHECK(more.overview().last[0].sentence.find("(pid 7) lasted") != std::string::npos);
    JobReportHistory none(0);
    none.add({});
    CHECK(none.list().empty());
}

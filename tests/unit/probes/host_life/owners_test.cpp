// Containers and Slurm steps, from their first GPU process until their cgroup is gone.
#include "exporter/probes/host_life/reports/owners.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/harness/machine/directory.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

namespace fs = std::filesystem;

const std::string job_container(64, 'c');
constexpr std::uint64_t job_mib = 1U << 20U;

// Long after the directories of the test are made.
constexpr nanoseconds job_began = 1'000s;

ProcessIdentity job_process(std::uint32_t pid, nanoseconds since = job_began) {
    ProcessIdentity process;
    process.key = {pid, static_cast<std::uint64_t>(since.count())};
    process.comm = "train";
    process.container = job_container;
    process.uid = 1000;
    return process;
}

GpuProcessTotals job_totals(std::uint32_t pid, nanoseconds ended, std::uint64_t peak_mib = 0,
                            double mib_seconds = 0, nanoseconds owned_since = job_began) {
    GpuProcessTotals totals{.process = job_process(pid), .ended = ended};
    if (peak_mib > 0) {
        const HeldByGpu held = {{"0",
                                 {.peak_bytes = peak_mib * job_mib,
                                  .byte_seconds = mib_seconds * static_cast<double>(job_mib)}}};
        totals.held = held;
        totals.owned.push_back(
            {.owner = {.container_id = job_container}, .since = owned_since, .held = held});
    }
    return totals;
}

JobReport job_report(const std::string &cause, std::uint64_t launches = 0) {
    JobReport report{.launches = launches};
    report.copied_bytes = {{"h2d", 10}};
    report.errors = 1;
    report.slow_calls = 2;
    report.hanging_calls = 0;
    report.causes = {{cause, 1}};
    report.gpus["0"].unfreed_bytes = 7;
    return report;
}

struct JobOwnersFixture {
    harness::TemporaryDirectory root;
    std::set<ProcessKey> running;
    std::string cgroup = "0::/docker/" + job_container + "\n";
    JobOwners owners;

    explicit JobOwnersFixture(bool is_older = false)
        : owners({.cgroup_path = mounted(),
                  .cgroups_of = [this](std::uint32_t) { return cgroup; },
                  .knows = [this](const ProcessKey &key) { return running.contains(key); }},
                 at(is_older ? job_began + 1h : job_began - 1h)) {}

    // As a hierarchy of version 2 is.
    [[nodiscard]] std::string mounted() const {
        std::ofstream(root / "cgroup.controllers") << "";
        return root.path();
    }

    // The directories are made about now, which is job_began here.
    static JobOwners::Moment at(nanoseconds monotonic) {
        static const nanoseconds made = std::chrono::system_clock::now().time_since_epoch();
        return {.monotonic = monotonic, .realtime = made + (monotonic - job_began)};
    }
    [[nodiscard]] fs::path directory() const { return root.path() / "docker" / job_container; }
    void make() const { fs::create_directories(directory()); }
    std::vector<JobReport> ended(nanoseconds now) { return owners.take_ended(at(now)); }
    void start(std::uint32_t pid, nanoseconds since = job_began) {
        running.insert(job_process(pid, since).key);
        owners.on_process(job_process(pid, since), at(since));
    }
    void end(const GpuProcessTotals &totals, const JobReport &report, nanoseconds now) {
        running.erase(totals.process.key);
        owners.on_end(totals, report, at(now));
    }
};

}  // namespace

TEST_CASE("a container is reported when its cgroup is gone, with the sums of its processes") {
    JobOwnersFixture fixture;
    fixture.make();
    fixture.start(7);
    fixture.end(job_totals(7, job_began + 100s, 30, 1'000), job_report("0", 5), job_began + 105s);
    // No process is left, but the cgroup is.
    CHECK(fixture.ended(job_began + 500s).empty());
    fixture.start(8, job_began + 600s);
    fixture.start(9, job_began + 610s);
    fixture.end(job_totals(8, job_began + 700s, 50, 4'000), job_report("SIGKILL", 7),
                job_began + 705s);
    fs::remove(fixture.directory());
    // The numbers of its last process are still to come.
    CHECK(fixture.ended(job_began + 801s).empty());
    fixture.end(job_totals(9, job_began + 800s, 50, 8'000), job_report("0", 1), job_began + 805s);
    const auto reports = fixture.ended(job_began + 806s);
    REQUIRE(reports.size() == 1);
    const JobReport &report = reports.front();
    CHECK(report.kind == JobReport::Kind::container);
    CHECK(report.names.container == job_container);
    CHECK(report.processes == 3);
    CHECK(report.launches == 13);
    CHECK(report.errors == 3);
    CHECK(report.copied_bytes.at("h2d") == 30);
    CHECK(report.slow_calls == 6U);
    CHECK(report.hanging_calls == 0U);
    CHECK_FALSE(report.waited);
    CHECK(report.causes == std::map<std::string, std::uint64_t>{{"0", 2}, {"SIGKILL", 1}});
    CHECK(report.gpus.at("0").peak_bytes == 50 * job_mib);  // of the sum
    CHECK(report.gpus.at("0").unfreed_bytes == 21);
    CHECK(report.gpus.at("0").mean_bytes == 10 * job_mib);  // 8000 MiB s in 800 s
    CHECK(report.at_least == JobReport::AtLeast{});
    CHECK(report.lasted >= 801s);
    CHECK(report.lasted < 801s + 1min);  // the directory was made a little before
    CHECK(fixture.ended(job_began + 900s).empty());
}

TEST_CASE("what an owner held before it was forgotten counts, too") {
    JobOwnersFixture fixture;
    fixture.make();
    fixture.start(7);
    fixture.end(job_totals(7, job_began + 100s, 60, 1'000), job_report("0"), job_began + 105s);
    fixture.start(8, job_began + 5'000s);
    fixture.end(job_totals(8, job_began + 10'000s, 20, 9'000, job_began + 5'000s), job_report("0"),
                job_began + 10'005s);
    fs::remove(fixture.directory());
    const auto reports = fixture.ended(job_began + 10'006s);
    REQUIRE(reports.size() == 1);
    CHECK(reports.front().gpus.at("0").peak_bytes == 60 * job_mib);
    CHECK(reports.front().gpus.at("0").mean_bytes == job_mib);  // 10000 MiB s in 10000 s
}

TEST_CASE("a container that is started again is another one") {
    JobOwnersFixture fixture;
    fixture.make();
    fixture.start(7);
    fs::rename(fixture.directory(), fixture.root / "gone");  // so that its inode is not used again
    fixture.make();
    fixture.start(8, job_began + 10s);
    // The first one's process is known by its id.
    fixture.end(job_totals(7, job_began + 5s), job_report("1"), job_began + 12s);
    const auto first = fixture.ended(job_began + 13s);
    REQUIRE(first.size() == 1);
    CHECK(first.front().causes.contains("1"));
    CHECK(first.front().processes == 1);
    fs::remove(fixture.directory());
    fixture.end(job_totals(8, job_began + 20s), job_report("0"), job_began + 22s);
    const auto second = fixture.ended(job_began + 23s);
    REQUIRE(second.size() == 1);
    CHECK(second.front().causes.contains("0"));
    CHECK(second.front().processes == 1);
}

TEST_CASE("a container whose cgroup cannot be seen ends with its last GPU process") {
    JobOwnersFixture fixture;
    fixture.start(7);
    fixture.start(8, job_began + 1s);
    fixture.end(job_totals(7, job_began + 10s), job_report("0"), job_began + 12s);
    CHECK(fixture.ended(job_began + 30s).empty());  // the other one runs
    fixture.end(job_totals(8, job_began + 40s), job_report("0"), job_began + 42s);
    CHECK(fixture.ended(job_began + 43s).empty());  // another one may follow
    const auto reports = fixture.ended(job_began + 60s);
    REQUIRE(reports.size() == 1);
    CHECK(reports.front().processes == 2);
    CHECK(reports.front().at_least == JobReport::AtLeast{.lasted = true});
    CHECK(reports.front().ended == JobOwnersFixture::at(job_began + 40s).realtime);
}

TEST_CASE("what may be missing of an owner makes its numbers lower bounds") {
    constexpr JobReport::AtLeast all{
        .memory = true, .launches = true, .calls = true, .waited = true, .slow = true};
    SECTION("it is older than the exporter") {
        JobOwnersFixture fixture(true);
        fixture.make();
        fixture.start(7, job_began + 2h);
        fixture.end(job_totals(7, job_began + 3h), job_report("0"), job_began + 3h);
        fs::remove(fixture.directory());
        const auto reports = fixture.ended(job_began + 3h);
        REQUIRE(reports.size() == 1);
        CHECK(reports.front().at_least == all);
    }
    SECTION("a process of it is not reported") {
        JobOwnersFixture fixture;
        fixture.make();
        fixture.start(7);
        fixture.start(8);
        fixture.end(job_totals(7, job_began + 10s), job_report("0"), job_began + 12s);
        fs::remove(fixture.directory());
        CHECK(fixture.ended(job_began + 13s).empty());
        CHECK(fixture.ended(job_began + 14s + JobOwners::patience / 2).empty());
        const auto reports = fixture.ended(job_began + 14s + JobOwners::patience);
        REQUIRE(reports.size() == 1);
        CHECK(reports.front().at_least == all);
        // Nor is it one of another owner.
        fixture.end(job_totals(8, job_began + 12s), job_report("0"), job_began + 1h);
        CHECK(fixture.ended(job_began + 2h).empty());
    }
    SECTION("of one process") {
        JobOwnersFixture fixture;
        fixture.make();
        fixture.start(7);
        JobReport report = job_report("0");
        report.at_least.launches = true;
        report.waited = 3s;
        fixture.end(job_totals(7, job_began + 10s), report, job_began + 12s);
        fixture.start(8, job_began + 20s);
        fixture.end(job_totals(8, job_began + 30s), job_report("0"), job_began + 32s);
        fs::remove(fixture.directory());
        const auto reports = fixture.ended(job_began + 33s);
        REQUIRE(reports.size() == 1);
        CHECK(reports.front().waited == nanoseconds(3s));
        CHECK(reports.front().at_least == JobReport::AtLeast{.launches = true, .waited = true});
    }
    SECTION("its memory is not known") {
        JobOwnersFixture fixture;
        fixture.make();
        fixture.start(7);
        GpuProcessTotals totals = job_totals(7, job_began + 10s, 5, 5);
        totals.owned.clear();
        fixture.end(totals, job_report("0"), job_began + 12s);
        fs::remove(fixture.directory());
        const auto reports = fixture.ended(job_began + 13s);
        REQUIRE(reports.size() == 1);
        CHECK(reports.front().at_least == JobReport::AtLeast{.memory = true});
    }
}

TEST_CASE("an owner that stays empty for long is over, though nobody removes its cgroup") {
    JobOwnersFixture fixture;
    fixture.make();
    std::ofstream(fixture.directory() / "cgroup.events") << "populated 1\nfrozen 0\n";
    fixture.start(7);
    fixture.end(job_totals(7, job_began + 10s), job_report("0"), job_began + 12s);
    CHECK(fixture.ended(job_began + 1h).empty());
    std::ofstream(fixture.directory() / "cgroup.events") << "populated 0\nfrozen 0\n";
    CHECK(fixture.ended(job_began + 2h).size() == 1);
}

TEST_CASE("a step of a Slurm job in a container is reported beside it") {
    JobOwnersFixture fixture;
    fixture.cgroup = "0::/docker/" + job_container + "/slurmstepd.scope/job_4/step_2/task_0\n";
    const fs::path step = fixture.directory() / "slurmstepd.scope" / "job_4" / "step_2";
    fs::create_directories(step);
    GpuProcessTotals totals = job_totals(7, job_began + 10s);
    totals.process.slurm_job_id = "4";
    totals.process.slurm_step_id = "2";
    fixture.running.insert(totals.process.key);
    fixture.owners.on_process(totals.process, JobOwnersFixture::at(job_began));
    fixture.end(totals, job_report("0"), job_began + 12s);
    CHECK(fixture.ended(job_began + 13s).empty());
    fs::remove(step);
    const auto reports = fixture.ended(job_began + 14s);
    REQUIRE(reports.size() == 1);
    CHECK(reports.front().kind == JobReport::Kind::slurm_step);
    CHECK(reports.front().slurm_step_id == "2");
    fs::remove_all(fixture.directory());
    const auto container = fixture.ended(job_began + 15s);
    REQUIRE(container.size() == 1);
    CHECK(container.front().kind == JobReport::Kind::container);
}

TEST_CASE("a user with many containers is limited, and takes no room of others") {
    JobOwnersFixture fixture;
    const auto run = [&](std::uint32_t uid, std::size_t number) {
        ProcessIdentity process = job_process(static_cast<std::uint32_t>(1'000 + number));
        process.container = std::to_string(uid) + "-" + std::to_string(number);
        process.uid = uid;
        fixture.owners.on_process(process, JobOwnersFixture::at(job_began));
    };
    for (std::size_t i = 0; i < 2 * JobOwners::most_of_user; i++) {
        run(1000, i);
    }
    CHECK(fixture.owners.left_out() == JobOwners::most_of_user);
    run(1001, 0);
    CHECK(fixture.owners.left_out() == JobOwners::most_of_user);
    // They have ended without any report of a process; then there is room again.
    CHECK(fixture.ended(job_began + 1h).empty());
    run(1000, 0);
    CHECK(fixture.owners.left_out() == JobOwners::most_of_user);
}

TEST_CASE("all cgroups are looked for in turn, so many in a second") {
    JobOwnersFixture fixture;
    constexpr std::uint32_t users = 5;
    constexpr std::uint32_t all = users * 200;
    std::vector<fs::path> directories;
    for (std::uint32_t i = 0; i < all; i++) {
        std::string id = std::to_string(100'000 + i);
        id.resize(64, 'f');
        fixture.cgroup = "0::/docker/" + id + "\n";
        directories.push_back(fixture.root.path() / "docker" / id);
        fs::create_directories(directories.back());
        GpuProcessTotals totals = job_totals(1'000 + i, job_began + 1s);
        totals.process.container = id;
        totals.process.uid = 1'000 + i % users;
        fixture.running.insert(totals.process.key);
        fixture.owners.on_process(totals.process, JobOwnersFixture::at(job_began));
        fixture.end(totals, job_report("0"), job_began + 2s);
    }
    CHECK(fixture.owners.left_out() == 0);
    std::set<std::string> reported;
    const auto report_for = [&](std::chrono::seconds from) {
        std::size_t most = 0;
        for (auto second = from; second < from + 4s; second += 1s) {
            const auto reports = fixture.ended(job_began + second);
            most = std::max(most, reports.size());
            for (const JobReport &report : reports) {
                CHECK(reported.insert(report.names.container).second);
            }
        }
        return most;
    };
    CHECK(report_for(3s) == 0);
    // The last of them first.
    for (std::size_t i = all - 100; i < all; i++) {
        fs::remove(directories[i]);
    }
    CHECK(report_for(10s) <= JobOwners::looks);
    CHECK(reported.size() == 100);
    fs::remove_all(fixture.root.path() / "docker");
    CHECK(report_for(20s) <= JobOwners::looks);
    CHECK(reported.size() == all);
}

TEST_CASE("a Slurm job is reported by its steps") {
    JobOwnersFixture fixture;
    GpuProcessTotals totals = job_totals(7, job_began + 10s);
    totals.process.container.clear();
    totals.process.slurm_job_id = "4";
    fixture.owners.on_process(totals.process, JobOwnersFixture::at(job_began));
    fixture.end(totals, job_report("0"), job_began + 12s);
    CHECK(fixture.ended(job_began + 1h).empty());
}

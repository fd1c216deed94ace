#include "exporter/probes/host_pressure/cgroup_files.h"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/host_pressure/aggregator.h"
#include "exporter/probes/host_pressure/probe.h"
#include "tests/harness/machine/directory.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using std::chrono::seconds;

namespace {

void write(const std::filesystem::path &path, const std::string &text) {
    std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("a process's cgroups are found in v1, v2 and both") {
    const harness::TemporaryDirectory v2;
    const std::string root = v2.path().string();
    write(v2 / "cgroup.controllers", "cpu memory\n");
    const CgroupPlaces unified = places_of("0::/a.slice/job.scope\n", root);
    CHECK(unified.unified == root + "/a.slice/job.scope");
    CHECK(unified.name == "job.scope");
    CHECK(unified.cpu.empty());

    const CgroupPlaces both = places_of(
        "12:cpu,cpuacct:/slurm/job_1\n4:memory:/slurm/job_1/step_0\n0::/init.scope\n", "/cg");
    CHECK(both.unified == "/cg/unified/init.scope");
    CHECK(both.cpu == "/cg/cpu/slurm/job_1");
    CHECK(both.memory == "/cg/memory/slurm/job_1/step_0");

    CHECK(places_of("0::/\n", root).empty());
    CHECK(places_of("0::/../other\n", root).empty());
    CHECK(places_of("0::/a/../../etc\n", root).empty());
    CHECK(places_of("4:cpuset:/x\nnonsense\n", root).empty());
    CHECK(places_of("", root).empty());
}

TEST_CASE("the pressure files of the kernel are read") {
    const auto pressure = parse_pressure(
        "some avg10=0.00 avg60=0.10 avg300=0.20 total=12345\nfull avg10=0.00 avg60=0.00 "
        "avg300=0.00 total=678\n");
    REQUIRE(pressure);
    CHECK(pressure->some == 12345);
    CHECK(pressure->full == 678);
    CHECK_FALSE(parse_pressure("some avg10=0.00 total=5\n")->full);
    CHECK_FALSE(parse_pressure(""));
    CHECK_FALSE(parse_pressure("some total=x\n"));
}

TEST_CASE("the CPU quota is read in the words of v1 and v2") {
    const auto v2 =
        parse_cpu_stat("usage_usec 1\nnr_periods 20\nnr_throttled 4\nthrottled_usec 987654\n");
    REQUIRE(v2);
    CHECK(v2->periods == 20);
    CHECK(v2->throttled_periods == 4);
    CHECK(v2->throttled_us == 987654);
    CHECK(parse_cpu_stat("nr_periods 9\nnr_throttled 1\nthrottled_time 5000000\n")->throttled_us ==
          5000);
    CHECK_FALSE(parse_cpu_stat("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"));
    CHECK_FALSE(parse_cpu_stat("usage_usec 5\n"));
    CHECK_FALSE(parse_cpu_stat("nr_periods many\n"));
}

TEST_CASE("memory by node is read in the words of v1 and v2") {
    const NumaMemory v2 = parse_numa_stat("anon N0=4096 N1=8192\nfile N0=1\nslab N0=7\n", 1);
    CHECK(v2 == NumaMemory{{{"anon", 0}, 4096}, {{"anon", 1}, 8192}, {{"file", 0}, 1}});
    const NumaMemory v1 =
        parse_numa_stat("total=9 N0=9\nfile=3 N0=3\nanon=6 N0=6\nhierarchical_anon=8 N0=8\n", 4096);
    CHECK(v1 == NumaMemory{{{"anon", 0}, 6 * 4096}, {{"file", 0}, 3 * 4096}});
    CHECK(parse_numa_stat("anon Nx=1 N0=\nfile\n", 1).empty());
}

TEST_CASE("a cgroup's files give what is there") {
    const harness::TemporaryDirectory directory;
    const std::filesystem::path job = directory / "job";
    std::filesystem::create_directory(job);
    CgroupPlaces places;
    places.unified = job.string();
    CHECK(read_cgroup(places).empty());
    write(job / "io.pressure", "some avg10=0 total=3\nfull avg10=0 total=2\n");
    write(job / "cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_usec 5\n");
    const CgroupState state = read_cgroup(places);
    CHECK(state.pressure.size() == 1);
    CHECK(state.pressure.at("io").full == 2);
    CHECK(state.cpu->throttled_us == 5);
    CHECK(state.memory.empty());
}

TEST_CASE("a cgroup counts what came since, and is forgotten after the retention") {
    HostPressureAggregator aggregator([](std::string_view) { return 100U; }, seconds(60));
    CgroupPlaces places;
    places.name = "job";
    const auto value = [&](const std::string &name) {
        std::uint64_t sum = 0;
        for (const auto &snapshot : aggregator.families().snapshots()) {
            for (std::size_t i = 0;
                 snapshot.description->name == name && i < snapshot.labels.size(); i++) {
                CHECK((*snapshot.labels[i])[1] == "4be1");
                sum += snapshot.values[i];
            }
        }
        return sum;
    };
    CgroupState state;
    state.pressure["cpu"] = {.some = 100, .full = std::nullopt};
    state.cpu = CpuQuota{.periods = 10, .throttled_periods = 2, .throttled_us = 50};
    state.memory = {{{"anon", 1}, 4096}};
    aggregator.on_cgroup(places, "4be1", "", state, seconds(1));
    state.pressure["cpu"].some = 130;
    aggregator.on_cgroup(places, "4be1", "", state, seconds(2));
    CHECK(value("gpusnoop_host_pressure_seconds_total") == 130);
    CHECK(value("gpusnoop_host_cpu_throttled_seconds_total") == 50);
    series::FamilySet set([](std::string_view) { return 100U; }, false);
    aggregator.add_memory(make_host_pressure_gauges(set), seconds(2));
    CHECK(set.snapshots().front().values == std::vector<std::uint64_t>{4096});
    aggregator.tidy(seconds(61));
    CHECK(value("gpusnoop_host_pressure_seconds_total") == 130);
    aggregator.tidy(seconds(62));
    CHECK(value("gpusnoop_host_pressure_seconds_total") == 0);
}

TEST_CASE("the settings of host_pressure are read") {
    const auto parse = [](const std::string &text) {
        return config::parse(text, "c", setting_blocks());
    };
    const auto config = parse("host: {cgroup_path: /host/cgroup, pressure: {enabled: false}}");
    REQUIRE(config);
    CHECK_FALSE(config->of<HostPressureConfig>().enabled);
    CHECK(config->of<HostConfig>().cgroup_path == "/host/cgroup");
    CHECK_FALSE(parse("host: {cgroup_path: cgroup}"));
}

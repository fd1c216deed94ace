#include "exporter/probes/host_tasks/aggregator.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/host_tasks/probe.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using std::chrono::seconds;

namespace {

struct HostTasksFixture {
    HostTasksAggregator aggregator{{.budget = [](std::string_view) { return 100U; },
                                    .retention = seconds(60),
                                    .look_up =
                                        [](ProcessIdentity &process) {
                                            process.comm = "prog";
                                            return true;
                                        }}};

    [[nodiscard]] static std::uint64_t sum(const std::vector<series::FamilySnapshot> &all,
                                           const std::string &family,
                                           const std::vector<std::string> &with) {
        std::uint64_t sum = 0;
        for (const auto &snapshot : all) {
            for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
                const auto &labels = *snapshot.labels[i];
                const bool is_meant = snapshot.description->name == "gpusnoop_host_" + family &&
                                      std::ranges::all_of(with, [&](const std::string &value) {
                                          return std::ranges::find(labels, value) != labels.end();
                                      });
                sum += is_meant ? snapshot.values[i] : 0;
            }
        }
        return sum;
    }
    [[nodiscard]] std::uint64_t sum(const std::string &family,
                                    const std::vector<std::string> &with = {}) const {
        return sum(aggregator.families().snapshots(), family, with);
    }
    [[nodiscard]] std::uint64_t memory(const std::vector<std::string> &with) const {
        series::FamilySet set([](std::string_view) { return 100U; }, true);
        aggregator.add_memory(set, 4096);
        return sum(set.snapshots(), "memory_bytes", with);
    }
};

tasks_thread host_tasks_thread_of(std::uint64_t cpu, std::uint32_t role = FOLLOWED_GPU) {
    tasks_thread thread{
        .since_ns = 10, .tgid = 7, .role = role, .has_memory = 0, .sums = {}, .pages = {}};
    thread.sums.of[TASKS_CPU_NS] = cpu;
    thread.sums.of[TASKS_RUNQUEUE_NS] = 2 * cpu;
    thread.sums.of[TASKS_READ_BYTES] = 3 * cpu;
    return thread;
}

tasks_exec_record exec_of(std::uint64_t cpu) {
    tasks_exec_record record{};
    record.head = {.at_ns = 1, .since_ns = 10, .tgid = 7, .type = 0};
    record.role = FOLLOWED_GPU;
    record.sums = host_tasks_thread_of(cpu).sums;
    return record;
}

std::span<const std::byte> host_tasks_bytes_of(const auto &record) {
    return std::as_bytes(std::span(&record, 1));
}

}  // namespace

TEST_CASE("the sums of a process's threads count, and never fall") {
    HostTasksFixture fixture;
    fixture.aggregator.on_reading(
        {.threads = {host_tasks_thread_of(100), host_tasks_thread_of(50)}, .past = {}});
    CHECK(fixture.sum("cpu_seconds_total", {"prog", "gpu"}) == 150);
    CHECK(fixture.sum("runqueue_wait_seconds_total") == 300);
    CHECK(fixture.sum("io_bytes_total", {"read"}) == 450);
    CHECK(fixture.sum("io_bytes_total", {"write"}) == 0);
    // One thread has ended and is not among the ended ones yet.
    fixture.aggregator.on_reading({.threads = {host_tasks_thread_of(120)}, .past = {}});
    CHECK(fixture.sum("cpu_seconds_total") == 150);
    fixture.aggregator.on_reading({.threads = {host_tasks_thread_of(180)}, .past = {}});
    CHECK(fixture.sum("cpu_seconds_total") == 180);
    fixture.aggregator.on_reading(
        {.threads = {host_tasks_thread_of(200, FOLLOWED_WORKER)}, .past = {}});
    CHECK(fixture.sum("cpu_seconds_total", {"worker"}) == 20);
}

TEST_CASE("what ended threads had counts, less what earlier programs had") {
    HostTasksFixture fixture;
    tasks_past past{.since_ns = 10, .signal = 1, .role = FOLLOWED_GPU, .ended = {}, .base = {}};
    past.ended.of[TASKS_CPU_NS] = 30;
    past.base.of[TASKS_CPU_NS] = 90;
    fixture.aggregator.on_reading({.threads = {host_tasks_thread_of(100)}, .past = {{7, past}}});
    CHECK(fixture.sum("cpu_seconds_total") == 40);
    past.ended.of[TASKS_CPU_NS] = 140;
    fixture.aggregator.on_reading({.threads = {}, .past = {{7, past}}});
    CHECK(fixture.sum("cpu_seconds_total") == 50);
    CHECK_FALSE(fixture.aggregator.has_ended());
    fixture.aggregator.processes().end({7, 10}, seconds(1));
    CHECK(fixture.aggregator.has_ended());
}

TEST_CASE("an exec brings what came since the last reading") {
    HostTasksFixture fixture;
    fixture.aggregator.on_reading({.threads = {host_tasks_thread_of(100)}, .past = {}});
    CHECK(fixture.aggregator.on_record(host_tasks_bytes_of(exec_of(130))));
    CHECK(fixture.sum("cpu_seconds_total") == 130);
    CHECK_FALSE(fixture.aggregator.on_record(host_tasks_bytes_of(std::uint64_t{1})));
}

TEST_CASE("what the kernel does not count has no family") {
    HostTasksFixture fixture;
    fixture.aggregator.set_kernel({.has_runqueue = false, .has_bytes = false});
    fixture.aggregator.on_reading({.threads = {host_tasks_thread_of(100)}, .past = {}});
    for (const auto &snapshot : fixture.aggregator.families().snapshots()) {
        const std::string &name = snapshot.description->name;
        CAPTURE(name);
        const bool is_counted =
            name.find("runqueue") == std::string::npos && name.find("io_") == std::string::npos;
        CHECK(snapshot.labels.empty() == !is_counted);
    }
}

TEST_CASE("memory is that of the last reading, of running processes, and never negative") {
    HostTasksFixture fixture;
    tasks_thread leader = host_tasks_thread_of(1);
    leader.has_memory = 1;
    leader.pages[TASKS_ANON] = 5;
    leader.pages[TASKS_FILE] = -3;
    fixture.aggregator.on_reading({.threads = {leader, host_tasks_thread_of(1)}, .past = {}});
    CHECK(fixture.memory({"prog", "7", "gpu", "anon"}) == 5 * 4096);
    CHECK(fixture.memory({}) == 5 * 4096);
    leader.pages[TASKS_ANON] = 2;
    fixture.aggregator.on_reading({.threads = {leader}, .past = {}});
    CHECK(fixture.memory({}) == 2 * 4096);
    CHECK(fixture.aggregator.on_record(host_tasks_bytes_of(exec_of(5))));
    CHECK(fixture.memory({}) == 0);
}

TEST_CASE("the settings of host_tasks are read") {
    const auto parse = [](const std::string &text) {
        return config::parse(text, "c", setting_blocks());
    };
    CHECK_FALSE(parse("host: {tasks: {enabled: false}}")->of<HostTasksConfig>().enabled);
    CHECK_FALSE(parse("host: {tasks: {interval: 1s}}"));
}

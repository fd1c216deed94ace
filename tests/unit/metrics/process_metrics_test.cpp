#include "exporter/metrics/process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <ctime>
#include <map>
#include <string>
#include <thread>

#include "exporter/base/fd.h"

namespace metrics = gpusnoop::metrics;
using Catch::Approx;
using prometheus::MetricType;

TEST_CASE("a process's stat file is read past any program name") {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
    const std::string rest =
        " R 1 2 3 4 -1 5 6 7 8 9 250 50 11 12 20 0 7 0 1000 123456789 42 18446744073709551615 1\n";
    for (const std::string name : {"(plain)", "(a) b) 9 9 (c)", "()", "(R 1 2\n3)"}) {
        INFO(name);
        const auto sample = metrics::parse_process_stat("4711 " + name + rest, 1.7e9);
        REQUIRE(sample);
        CHECK(sample->cpu_seconds == 300 / ticks);
        CHECK(sample->threads == 7);
        CHECK(sample->start_time == 1.7e9 + 1000 / ticks);
        CHECK(sample->virtual_bytes == 123456789);
        CHECK(sample->resident_bytes == 42 * page);
    }
    const auto unbooted = metrics::parse_process_stat("1 (a)" + rest, std::nullopt);
    REQUIRE(unbooted);
    CHECK_FALSE(unbooted->start_time);
}

TEST_CASE("what is no stat file is an error") {
    for (const std::string text :
         {"", "1 name R 1 2", "1 (a)", "1 (a) R 1 2 3 4 5",
          "1 (a) R 1 2 3 4 -1 5 6 7 8 9 x 50 11 12 20 0 7 0 1000 123 42"}) {
        INFO(text);
        CHECK_FALSE(metrics::parse_process_stat(text, 0));
    }
}

TEST_CASE("this process measures itself") {
    const metrics::ProcessSample before = metrics::read_own_process();
    REQUIRE(before.cpu_seconds);
    REQUIRE(before.open_fds);
    REQUIRE(before.threads);

    SECTION("open files and their limit") {
        const gpusnoop::Fd one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        const gpusnoop::Fd two(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        CHECK(metrics::read_own_process().open_fds == *before.open_fds + 2);
        rlimit limit{};
        REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
        CHECK(before.max_fds == static_cast<double>(limit.rlim_cur));
    }
    SECTION("threads") {
        std::thread([] {}).join();  // a sanitizer has a thread of its own, from the first on
        std::this_thread::sleep_for(
            std::chrono::milliseconds(100));  // the kernel counts it a bit longer
        const auto alone = metrics::read_own_process().threads;
        REQUIRE(alone);
        std::thread other([] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); });
        CHECK(metrics::read_own_process().threads == *alone + 1);
        other.join();
    }
    SECTION("memory") {
        REQUIRE(before.resident_bytes);
        REQUIRE(before.virtual_bytes);
        CHECK(*before.resident_bytes > 100e3);
        CHECK(*before.virtual_bytes >= *before.resident_bytes);
        // Fresh pages: the allocator would hand out some that are resident already.
        constexpr std::size_t size = 32U << 20U;
        void *touched = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        REQUIRE(touched != MAP_FAILED);
        CHECK(*metrics::read_own_process().resident_bytes > *before.resident_bytes + 30e6);
        ::munmap(touched, size);
    }
    SECTION("start and CPU time") {
        REQUIRE(before.start_time);
        const auto now = static_cast<double>(std::time(nullptr));
        CHECK(*before.start_time <= now + 2);
        CHECK(*before.start_time > now - 86400);
        timespec used{};
        REQUIRE(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0);
        const double seconds =
            static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
        CHECK(*before.cpu_seconds <= seconds + 0.1);
        CHECK(*before.cpu_seconds >= seconds - 1.0);
    }
}

TEST_CASE("the families have the names and types that every client library gives them") {
    const std::map<std::string, MetricType> expected = {
        {"process_cpu_seconds_total", MetricType::Counter},
        {"process_open_fds", MetricType::Gauge},
        {"process_max_fds", MetricType::Gauge},
        {"process_virtual_memory_bytes", MetricType::Gauge},
        {"process_virtual_memory_max_bytes", MetricType::Gauge},
        {"process_resident_memory_bytes", MetricType::Gauge},
        {"process_start_time_seconds", MetricType::Gauge},
        {"process_threads", MetricType::Gauge},
    };
    const auto families = metrics::process_families(metrics::read_own_process());
    std::map<std::string, MetricType> found;
    for (const prometheus::MetricFamily &family : families) {
        found.emplace(family.name, family.type);
        CHECK(family.help.find('\n') == std::string::npos);
        REQUIRE(family.metric.size() == 1);
        CHECK(family.metric[0].label.empty());
    }
    CHECK(found == expected);
}

TEST_CASE("a value lands in its family, and what is unknown has none") {
    metrics::ProcessSample sample;
    CHECK(metrics::process_families(sample).empty());
    sample.cpu_seconds = 1.5;
    sample.threads = 3;
    const auto families = metrics::process_families(sample);
    REQUIRE(families.size() == 2);
    CHECK(families[0].name == "process_cpu_seconds_total");
    CHECK(families[0].metric[0].counter.value == Approx(1.5));
    CHECK(families[1].name == "process_threads");
    CHECK(families[1].metric[0].gauge.value == Approx(3));
}

TEST_CASE("the build's description is a metric of value 1") {
    const prometheus::MetricFamily family = metrics::build_info("1.4.6");
    CHECK(family.name == "gpusnoop_build_info");
    CHECK(family.type == MetricType::Gauge);
    REQUIRE(family.metric.size() == 1);
    CHECK(family.metric[0].gauge.value == Approx(1));
    std::map<std::string, std::string> labels;
    for (const auto &label : family.metric[0].label) {
        labels[label.name] = label.value;
    }
    CHECK(labels.size() == 4);
    CHECK_FALSE(labels["version"].empty());
    CHECK_FALSE(labels["revision"].empty());
    CHECK_FALSE(labels["compiler"].empty());
    CHECK(labels["libbpf"] == "1.4.6");
}

// Profiles of a program whose files answer slowly: they end in time, and so does the exporter.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "tests/e2e/hostile/hostile.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

using Clock = std::chrono::steady_clock;

// More than the exporter allows itself, as the machine may be busy, and less than the names take.
constexpr std::chrono::seconds at_most{10};

struct TimedAnswer {
    HttpAnswer answer;
    Clock::time_point at;
};

std::future<TimedAnswer> begin_profile(const Exporter &exporter) {
    auto asked = std::async(std::launch::async, [port = exporter.port()] {
        return TimedAnswer{http(port, "/api/v1/profile?duration=1s&format=folded"), Clock::now()};
    });
    exporter.wait_for_log("msg=\"the profile begins");
    return asked;
}

}  // namespace

TEST_CASE("names that take long to read delay neither a profile nor the exporter's end", "[e2e]") {
    require_bpf();
    const e2e::HasSlowMap program;
    const e2e::HasPythons pythons;
    Exporter exporter("functions: {enabled: false}\ntargets: {comms: [stacks, pythons]}\n");
    auto profile = begin_profile(exporter);
    SECTION("the profile ends within the time that another client is told") {
        // Its own time is over.
        std::this_thread::sleep_for(std::chrono::milliseconds(1800));
        const HttpAnswer refused = http(exporter.port(), "/api/v1/profile?duration=100ms");
        const auto asked = Clock::now();
        const TimedAnswer taken = profile.get();
        CHECK(taken.answer.status == 200);
        CHECK(taken.answer.body.find("stacks;") != std::string::npos);
        CHECK(taken.answer.body.find("pythons;") != std::string::npos);
        REQUIRE(refused.status == 409);
        const std::string before = "for at most ";
        const auto most = std::stoi(refused.body.substr(refused.body.find(before) + before.size()));
        const std::chrono::duration<double> took = taken.at - asked;
        WARN("ended after " << took.count() << " s, said to take " << most << " s at most");
        CHECK(took < std::chrono::seconds(most) + std::chrono::seconds(4));
        CHECK(took < at_most);
    }
    SECTION("the exporter ends") {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        const auto told = Clock::now();
        exporter.process().signal(SIGTERM);
        CHECK(exporter.process().wait() == 0);
        const std::chrono::duration<double> took = Clock::now() - told;
        WARN("ended after " << took.count() << " s");
        CHECK(took < at_most);
    }
}

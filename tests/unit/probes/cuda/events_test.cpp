// Times between events, without the other parts of the aggregator; and their way through it.
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "exporter/probes/cuda/events/events.h"
#include "tests/unit/probes/cuda/fixture.h"
#include "tests/unit/probes/cuda/part_fixture.h"
#include "tests/unit/probes/cuda/records.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr const char *elapsed = "cuda_event_elapsed_seconds";
constexpr const char *invalid = "cuda_event_elapsed_invalid_total";

struct EventsFixture : PartFixture {
    CudaEvents events{families};

    EventsFixture() : PartFixture(CudaEvents::started) {}

    void give(float milliseconds, std::uint64_t ended_ns = 60 * second_ns) {
        events.on_elapsed(process(), elapsed_record(milliseconds, ended_ns));
    }
    static cuda_elapsed_record elapsed_record(float milliseconds, std::uint64_t ended_ns) {
        return {head(CUDA_RECORD_ELAPSED, "cudaEventElapsedTime", ended_ns),
                std::bit_cast<std::uint32_t>(milliseconds), 0};
    }
};

std::uint64_t observed_ns(const std::vector<series::FamilySnapshot> &families) {
    std::uint64_t sum = 0;
    for (const series::FamilySnapshot &one : families) {
        if (one.description->name == std::string("gpusnoop_") + elapsed) {
            for (std::size_t end = one.stride; end <= one.values.size(); end += one.stride) {
                sum += one.values[end - 1];
            }
        }
    }
    return sum;
}
std::uint64_t observed_ns(const EventsFixture &fixture) {
    return observed_ns(fixture.families.snapshots());
}
std::uint64_t observed_ns(const Fixture &fixture) {
    return observed_ns(fixture.aggregator->report(std::chrono::nanoseconds(0)));
}

}  // namespace

TEST_CASE("the time between two events is observed in nanoseconds") {
    EventsFixture fixture;
    fixture.give(0);
    fixture.give(0.25F);
    fixture.give(1500);
    CHECK(observed_ns(fixture) == 1'500'250'000);
    CHECK(fixture.page(invalid).empty());
}

TEST_CASE("a time that no two events can have is counted and not observed") {
    EventsFixture fixture;
    for (const float time :
         {-1.0F, -std::numeric_limits<float>::min(), std::numeric_limits<float>::quiet_NaN(),
          std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::max(), 60'001.0F}) {
        fixture.give(time);
    }
    CHECK(fixture.sum(invalid) == 7);
    CHECK(fixture.page(elapsed).empty());

    SECTION("up to the time since the machine's start it is one") {
        fixture.give(60'000);
        fixture.give(-0.0F);
        CHECK(observed_ns(fixture) == 60 * second_ns);
        CHECK(fixture.sum(invalid) == 7);
    }
}

TEST_CASE("a call for the time between two events that fails is an error") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.calls(EventsFixture::elapsed_record(2, second_ns));
    fixture.calls(failed("cudaEventElapsedTime_v2", 600));
    fixture.calls(failed("cuEventElapsedTime", 600));
    fixture.apply_all();
    CHECK(observed_ns(fixture) == 2'000'000);
    CHECK(fixture.page("cuda_api_errors_total") ==
          Page{{{"python", "", "", "", "cudaEventElapsedTime", "cudaErrorNotReady"}, 1},
               {{"python", "", "", "", "cuEventElapsedTime", "CUDA_ERROR_NOT_READY"}, 1}});
}

// Events that wait until everything before them is known.

namespace {

std::vector<std::uint64_t> times(const std::vector<OrderedEvent> &events) {
    std::vector<std::uint64_t> all;
    for (const OrderedEvent &event : events) {
        all.push_back(std::visit([](const auto &record) { return record.head.ended_ns; }, event));
    }
    return all;
}

using Times = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("events leave in the order of their times, as far as those are reached") {
    PendingEvents events;
    events.add(exited(400));
    events.add(allocation(0x1000, 1, 100));
    events.add(reset(0, 300));
    events.add(copy(1, 2, 3, COPY_DEFAULT, 200));
    CHECK(times(events.take_until(99ns)).empty());
    CHECK(times(events.take_until(300ns)) == Times{100, 200, 300});
    events.add(mapping(CUDA_RECORD_MAP, 0x1000, 1, 50));  // late
    CHECK(times(events.take_until(1s)) == Times{50, 400});
    CHECK(events.take_until(1s).empty());
}

TEST_CASE("events of the same time leave as they came") {
    PendingEvents events;
    events.add(allocation(0x1, 1, 100));
    events.add(allocation(0x2, 1, 50));
    events.add(allocation(0x3, 1, 100));
    events.add(exited(100));
    const auto due = events.take_until(1s);
    REQUIRE(due.size() == 4);
    CHECK(std::get<cuda_allocation_record>(due[0]).address == 0x2);
    CHECK(std::get<cuda_allocation_record>(due[1]).address == 0x1);
    CHECK(std::get<cuda_allocation_record>(due[2]).address == 0x3);
    CHECK(std::holds_alternative<cuda_exit_record>(due[3]));
}

TEST_CASE("a time past the clock's end is the last of all") {
    PendingEvents events;
    events.add(exited(UINT64_MAX));
    events.add(exited(1));
    CHECK(times(events.take_until(std::chrono::nanoseconds(INT64_MAX - 1))) == Times{1});
    CHECK(times(events.take_until(std::chrono::nanoseconds::max())) == Times{UINT64_MAX});
    for (std::uint64_t i = 0; i < 10'000; i++) {
        events.add(exited(i));
    }
    CHECK(events.take_until(9'990ns).size() == 9'991);
    events.release_room();
    CHECK(events.take_until(1s).size() == 9);
}

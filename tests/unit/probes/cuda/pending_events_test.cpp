// Events that wait until everything before them is known.
#include "exporter/probes/cuda/events/events.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/probes/cuda/records.h"

using namespace gpusnoop::probes;
using namespace std::chrono_literals;

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

// When the table of live allocations is read.
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "exporter/probes/cuda/agreement.h"

using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("the table is read at the start, whatever was lost") {
    Agreement agreement;
    CHECK(agreement.is_due(100s, 0, false));
    agreement.read(100s, 1ms);
    CHECK(agreement.is_due(101s, 0, false));  // it could not be read
    agreement.read(101s, 1ms);
    agreement.agreed(0);
    CHECK_FALSE(agreement.is_due(200s, 0, false));
}

TEST_CASE("the table is read when records were lost, or something is wanted from it") {
    Agreement agreement;
    agreement.read(100s, 1ms);
    agreement.agreed(7);
    CHECK_FALSE(agreement.is_due(101s, 7, false));
    CHECK(agreement.is_due(101s, 8, false));
    CHECK(agreement.is_due(101s, 7, true));
}

TEST_CASE("reading takes a twentieth of a CPU while records are being lost") {
    Agreement agreement;
    CHECK(agreement.is_due(0s, 0, false));
    agreement.read(100s, 50ms);
    agreement.agreed(0);
    CHECK_FALSE(agreement.is_due(100s + 900ms, 1, false));
    CHECK(agreement.is_due(101s, 2, false));
}

TEST_CASE("the table is read soon after the last loss") {
    Agreement agreement;
    CHECK(agreement.is_due(0s, 0, false));
    agreement.read(100s, 500ms);
    agreement.agreed(0);
    CHECK_FALSE(agreement.is_due(100s + 900ms, 1, false));
    CHECK_FALSE(agreement.is_due(101s, 1, false));
    CHECK(agreement.is_due(101s + 100ms, 1, false));
    agreement.read(101s + 100ms, 500ms);
    agreement.agreed(1);
    CHECK_FALSE(agreement.is_due(200s, 1, false));
}

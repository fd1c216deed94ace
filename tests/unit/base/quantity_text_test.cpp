#include "exporter/base/text/quantity_text.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <limits>

using namespace gpusnoop;

TEST_CASE("rates and durations fit into their columns") {
    CHECK(rate_text(0) == "0");
    CHECK(rate_text(-1) == "0");
    CHECK(rate_text(0.001) == "<0.01");
    CHECK(rate_text(0.5) == "0.50");
    CHECK(rate_text(9.999) == "10.0");
    CHECK(rate_text(12.34) == "12.3");
    CHECK(rate_text(99'999) == "99999");
    CHECK(rate_text(99'999.7) == "100k");
    CHECK(rate_text(1'234'567) == "1.23M");
    CHECK(rate_text(1e300) == ">999T");
    CHECK(duration_text({}) == "-");
    CHECK(duration_text(312e-9) == "312ns");
    CHECK(duration_text(999.7e-9) == "1.00us");
    CHECK(duration_text(1.2345e-3) == "1.23ms");
    CHECK(duration_text(45.67) == "45.7s");
    CHECK(duration_text(86'400) == "86400s");
    for (double value = 1e-12; value < 1e17; value *= 1.37) {
        CAPTURE(value);
        REQUIRE(rate_text(value).size() <= 7);
        REQUIRE(duration_text(std::min(value, 9'999'999.0)).size() <= 8);
    }
    CHECK(span_text(12.9) == "12s");
    CHECK(span_text(80) == "1m 20s");
    CHECK(span_text(7'500) == "2h 5m");
    CHECK(span_text(273'600) == "3d 4h");
    CHECK(span_text(-5) == "0s");
}

TEST_CASE("a duration that goes on is as exact as a person wants it") {
    CHECK(age_text(0.0125) == "12.5ms");
    CHECK(age_text(59.9) == "59.9s");
    CHECK(age_text(60) == "1m 0s");
    CHECK(age_text(7'500) == "2h 5m");
}

TEST_CASE("sizes and counts as people read them") {
    CHECK(bytes_text(0) == "0 B");
    CHECK(bytes_text(1023) == "1023 B");
    CHECK(bytes_text(1024) == "1.00 KiB");
    CHECK(bytes_text(1536) == "1.50 KiB");
    CHECK(bytes_text((1U << 20U) - 1) == "1.00 MiB");
    CHECK(bytes_text(std::uint64_t{8} << 30U) == "8.00 GiB");
    CHECK(bytes_text(std::uint64_t{80} << 30U) == "80.0 GiB");
    CHECK(bytes_text(std::numeric_limits<std::uint64_t>::max()) == "16.0 EiB");
    CHECK(count_text(0) == "0");
    CHECK(count_text(999) == "999");
    CHECK(count_text(1'000) == "1,000");
    CHECK(count_text(1'234'567) == "1,234,567");
    CHECK(count_text(std::numeric_limits<std::uint64_t>::max()) == "18,446,744,073,709,551,615");
}

// What the benchmarks compute of their figures.
#include "bench/results/statistics.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cmath>

using namespace gpusnoop::bench;
using Catch::Approx;

TEST_CASE("quantiles lie between the values that are nearest") {
    CHECK(median({3, 1, 2}) == 2);
    CHECK(median({4, 1, 2, 3}) == 2.5);
    CHECK(quantile({10, 20}, 0.1) == Approx(11));
    CHECK(quantile({5}, 0.9) == 5);
    CHECK(quantile({2, 1}, 1) == 2);
}

TEST_CASE("ratios are taken round by round") {
    const auto ratios = ratios_of({2, 9, 4}, {1, 3, 4});
    CHECK(ratios == std::vector<double>{2, 3, 1});
    CHECK(ratio_text(ratios) == "2.00x (1.20 to 2.80)");
}

TEST_CASE("numbers have the digits that tell something") {
    CHECK(number_text(1234.4) == "1234");
    CHECK(number_text(12.34) == "12.3");
    CHECK(number_text(0.01234) == "0.0123");
    CHECK(number_text(0) == "0");
    CHECK(number_text(-250) == "-250");
}

TEST_CASE("an exponent is found in powers, and fits what is off them by its square") {
    for (const double power : {-1.0, 0.0, 0.5, 1.0, 2.0}) {
        std::vector<Measured> measured;
        for (const double load : {1.0, 10.0, 100.0}) {
            measured.push_back({load, 7 * std::pow(load, power)});
        }
        CHECK(growth_exponent(measured) == Approx(power).margin(1e-12));
    }
    // Logarithms to the base 10: (0, 0), (1, 0), (2, 3): the slope of least squares is 3/2.
    CHECK(growth_exponent(std::array{Measured{1, 1}, Measured{10, 1}, Measured{100, 1000}}) ==
          Approx(1.5));
}

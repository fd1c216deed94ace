// Statistics of repeated measurements.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace gpusnoop::bench {

// Between the two values that are nearest. `part` is from 0 to 1; there must be a value.
double quantile(std::vector<double> values, double part);
double median(const std::vector<double> &values);

// "1.31x (1.20 to 1.52)": the median, and the tenth and the ninetieth of a hundred.
std::string ratio_text(const std::vector<double> &ratios);

// One figure divided by another, by round. Both have the same number of rounds.
std::vector<double> ratios_of(const std::vector<double> &of, const std::vector<double> &over);

// "12", "1234" or "0.123": only significant digits.
std::string number_text(double number);

// By how much a cost grows with the load: the exponent b of cost = a * load^b that fits best, by
// least squares of the logarithms. 0: it does not depend on it; 1: in proportion. bench/fit.py is
// the same in Python. There must be two loads at least, and all numbers above 0.
struct Measured {
    double load;
    double cost;
};
double growth_exponent(std::span<const Measured> measured);

}  // namespace gpusnoop::bench

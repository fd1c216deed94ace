#include "bench/results/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

namespace gpusnoop::bench {

double quantile(std::vector<double> values, double part) {
    std::ranges::sort(values);
    const double place = part * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const auto above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

double median(const std::vector<double> &values) {
    return quantile(values, 0.5);
}

std::string ratio_text(const std::vector<double> &ratios) {
    return fmt::format("{:.2f}x ({:.2f} to {:.2f})", median(ratios), quantile(ratios, 0.1),
                       quantile(ratios, 0.9));
}

std::vector<double> ratios_of(const std::vector<double> &of, const std::vector<double> &over) {
    std::vector<double> ratios(of.size());
    std::ranges::transform(of, over, ratios.begin(), std::divides{});
    return ratios;
}

std::string number_text(double number) {
    const double size = std::abs(number);
    return size >= 100 || size == 0 ? fmt::format("{:.0f}", number)
           : size >= 10             ? fmt::format("{:.1f}", number)
                                    : fmt::format("{:.3g}", number);
}

double growth_exponent(std::span<const Measured> measured) {
    const auto count = static_cast<double>(measured.size());
    double loads = 0;
    double costs = 0;
    for (const auto &[load, cost] : measured) {
        loads += std::log(load) / count;
        costs += std::log(cost) / count;
    }
    double together = 0;
    double alone = 0;
    for (const auto &[load, cost] : measured) {
        together += (std::log(load) - loads) * (std::log(cost) - costs);
        alone += (std::log(load) - loads) * (std::log(load) - loads);
    }
    return together / alone;
}

}  // namespace gpusnoop::bench

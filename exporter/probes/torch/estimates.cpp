#include "exporter/probes/torch/estimates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace gpusnoop::probes {

// Samples of small blocks come as a Poisson process does, one in each `rate` bytes on average. Its
// mean is not further above n than z^2/2 + z * sqrt(n + z^2/4) (the score interval), and closer
// where it is below. This holds for few samples, where n + z * sqrt(n) does not, and for none.
// Larger blocks have less variance than n. z would be 1.96 if the variance were known; it is
// estimated from the same samples.
std::uint64_t error_of_estimate(double variance, std::uint64_t rate) {
    constexpr double z = 2.2;
    const auto unit = static_cast<double>(rate);
    return static_cast<std::uint64_t>(
        std::ceil(z * z / 2 * unit + z * std::sqrt(variance + z * z / 4 * unit * unit)));
}

std::vector<SiteEstimate> estimates_of(const TorchBlocks &blocks, const ProcessSites &names,
                                       std::uint64_t rate) {
    struct Sum {
        std::uint64_t bytes = 0;
        double variance = 0;
    };
    std::map<std::string_view, Sum> sums;
    for (const auto &[site, amount] : blocks.sites()) {
        const SiteName &name = names.name_of(site);
        if (!name.label.empty()) {
            Sum &sum = sums[name.label];
            sum.bytes += amount.bytes;
            sum.variance += blocks.variance_of(site);
        }
    }
    std::vector<SiteEstimate> estimates;
    for (const auto &[label, sum] : sums) {
        if (sum.bytes >= least_samples * rate) {
            estimates.push_back({label, sum.bytes, error_of_estimate(sum.variance, rate)});
        }
    }
    std::ranges::sort(estimates, [](const SiteEstimate &a, const SiteEstimate &b) {
        return std::tie(b.bytes, a.label) < std::tie(a.bytes, b.label);
    });
    return estimates;
}

}  // namespace gpusnoop::probes

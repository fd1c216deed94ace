// The values of families, as tests look them up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exporter/series/family.h"

namespace gpusnoop::probes {

using Page = std::map<series::LabelValues, std::uint64_t>;

// The values of a family by their label sets; of a histogram, the counts of the first bucket.
inline Page page_of(const std::vector<series::FamilySnapshot> &families, const std::string &name) {
    Page values;
    for (const auto &family : families) {
        if (family.description->name != "gpusnoop_" + name) {
            continue;
        }
        for (std::size_t i = 0; i < family.labels.size(); i++) {
            values[*family.labels[i]] = family.values[i * family.stride];
        }
    }
    return values;
}

// The sum of the values over the label sets that contain all of `labels`.
inline std::uint64_t sum_of(const Page &page, const std::vector<std::string> &labels) {
    std::uint64_t sum = 0;
    for (const auto &[own, value] : page) {
        if (std::ranges::all_of(labels, [&values = own](const auto &label) {
                return std::ranges::find(values, label) != values.end();
            })) {
            sum += value;
        }
    }
    return sum;
}

}  // namespace gpusnoop::probes

// Families for tests, and what they show.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>

#include "exporter/series/family.h"

namespace gpusnoop::series {

// The row of what has none of its own.
inline const LabelValues other = {"other"};

using Page = std::map<LabelValues, std::uint64_t>;

inline Description launches(Type type = Type::counter) {
    return {.name = "launches_total",
            .help = "Launches.",
            .type = type,
            .labels = {{"comm"}, {"kernel"}, {"grid", false, true}, {"gpu", true}}};
}

inline Description calls(Type type = Type::counter) {
    return {.name = "calls_total", .help = "Calls.", .type = type, .labels = {{"name"}}};
}

// Of counters and gauges.
inline Page page_of(const Family &family) {
    const auto snapshot = family.snapshot();
    Page page;
    for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
        page[*snapshot.labels[i]] = snapshot.values[i];
    }
    REQUIRE(page.size() == snapshot.labels.size());
    REQUIRE(page.size() == family.size());
    return page;
}

inline std::uint64_t sum_of(const Page &page) {
    std::uint64_t sum = 0;
    for (const auto &[labels, value] : page) {
        sum += value;
    }
    return sum;
}

}  // namespace gpusnoop::series

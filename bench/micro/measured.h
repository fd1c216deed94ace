// A loop of a benchmark, and the number of its allocations.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <iterator>

#include "bench/scrape/allocations.h"

namespace gpusnoop::bench {

// Calls `work` repeatedly; each call handles `items` of the measured things.
template <typename Work>
void measure(benchmark::State &state, std::int64_t items, Work work) {
    work();  // excludes the work of the first call
    const std::uint64_t before = allocations().count;
    for (auto _ : state) {
        work();
    }
    const std::uint64_t after = allocations().count;
    state.SetItemsProcessed(state.iterations() * items);
    state.counters["allocations"] =
        static_cast<double>(after - before) / static_cast<double>(state.iterations() * items);
}

// Calls `use` with one of `all` after another; each call is one measured thing.
template <typename All, typename Use>
void measure_each(benchmark::State &state, const All &all, Use use) {
    measure(state, static_cast<std::int64_t>(std::size(all)), [&] {
        for (const auto &one : all) {
            use(one);
        }
    });
}

}  // namespace gpusnoop::bench

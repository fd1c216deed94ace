// A loop of a benchmark: what it does, and how many allocations that took.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <iterator>

#include "bench/scrape/allocations.h"

namespace gpusnoop::bench {

// Calls `work` again and again; each call is `items` of what is measured.
template <typename Work>
void measure(benchmark::State &state, std::int64_t items, Work work) {
    work();  // what is done the first time only
    const std::uint64_t before = allocations().count;
    for (auto _ : state) {
        work();
    }
    const std::uint64_t after = allocations().count;
    state.SetItemsProcessed(state.iterations() * items);
    state.counters["allocations"] =
        static_cast<double>(after - before) / static_cast<double>(state.iterations() * items);
}

// Calls `use` with one of `all` after another, each of which is one of what is measured.
template <typename All, typename Use>
void measure_each(benchmark::State &state, const All &all, Use use) {
    measure(state, static_cast<std::int64_t>(std::size(all)), [&] {
        for (const auto &one : all) {
            use(one);
        }
    });
}

}  // namespace gpusnoop::bench

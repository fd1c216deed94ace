// From counters to the page, and its texts.
#include <prometheus/text_serializer.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/micro/measured.h"
#include "bench/scrape/load.h"
#include "exporter/base/gzip.h"
#include "exporter/base/text/text.h"
#include "exporter/metrics/page.h"
#include "exporter/probes/cuda/launches/cuda_kernel_name.h"
#include "exporter/probes/functions/setting_groups.h"
#include "exporter/series/family.h"

using namespace gpusnoop;

namespace {

using bench::measure;

// ---- series ----

series::Description durations() {
    std::vector<std::uint64_t> bounds;
    for (const auto bound : probes::default_buckets()) {
        bounds.push_back(static_cast<std::uint64_t>(bound.count()));
    }
    return {.name = "durations_seconds",
            .help = "Durations.",
            .type = series::Type::histogram,
            .labels = {{"comm"}, {"container_id"}, {"library"}, {"function"}},
            .divisor = 1e9,
            .bounds = bounds};
}

std::vector<series::LabelValues> label_sets() {
    std::vector<series::LabelValues> sets;
    for (std::size_t i = 0; i < 1'024; i++) {
        sets.push_back({"train", "0123456789ab", "libcublas.so.12",
                        "cublasGemmStridedEx_" + std::to_string(i)});
    }
    return sets;
}

void histogram_observe(benchmark::State &state) {
    series::Family family(durations(), 2'000);
    std::vector<series::Slot> slots;
    for (const auto &values : label_sets()) {
        slots.push_back(family.slot(1, values));
    }
    measure(state, 1'024, [&] {
        std::uint64_t value = 1'000;
        for (const series::Slot slot : slots) {
            family.observe(slot, value);
            value = value < 1'000'000'000 ? value * 3 : 1'000;
        }
    });
}
BENCHMARK(histogram_observe);

// Looks up an existing one by its label values.
void series_look_up(benchmark::State &state) {
    series::Family family(durations(), 2'000);
    const auto sets = label_sets();
    measure(state, 1'024, [&] {
        for (const auto &values : sets) {
            benchmark::DoNotOptimize(family.slot(1, values));
        }
    });
}
BENCHMARK(series_look_up);

// ---- text ----

void label_repair(benchmark::State &state, std::string_view bytes) {
    measure(state, 1, [&] { benchmark::DoNotOptimize(to_valid_utf8(bytes, 128)); });
}
BENCHMARK_CAPTURE(label_repair, that_is_valid, "cublasGemmStridedBatchedEx_v2_training");
BENCHMARK_CAPTURE(label_repair, that_is_not,
                  "cublas\xff\xfeGemm\x01StridedBatched\xc3(Ex_training");

void symbol_shortening(benchmark::State &state, std::string_view symbol) {
    measure(state, 1, [&] { benchmark::DoNotOptimize(symbols::kernel_name(symbol)); });
}
BENCHMARK_CAPTURE(symbol_shortening, plain, "_Z3addPfPKfi");
BENCHMARK_CAPTURE(symbol_shortening, of_pytorch,
                  "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
                  "11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_");

// ---- the page ----

// A page of 10,000 series; the result is per sample.
struct Page {
    bench::Load load{10'000};
    probes::Snapshot snapshot = take();
    std::vector<prometheus::MetricFamily> families = bench::families_of(snapshot, load.probes());
    std::vector<prometheus::MetricFamily> own = bench::own_families(snapshot, load.probes());
    std::string text = metrics::to_text(families);
    std::int64_t samples = static_cast<std::int64_t>(bench::samples_in(text));

    [[nodiscard]] probes::Snapshot take() const {
        probes::Snapshot taken;
        for (probes::Probe *probe : load.probes()) {
            for (auto &family : probe->report()) {
                taken.families.push_back(std::move(family));
            }
        }
        return taken;
    }
};

// The first caller makes it.
const Page &page() {
    static const Page made;
    return made;
}

void page_snapshot(benchmark::State &state) {
    measure(state, page().samples, [] { benchmark::DoNotOptimize(page().take()); });
}
BENCHMARK(page_snapshot);

void page_text(benchmark::State &state) {
    measure(state, page().samples, [] {
        benchmark::DoNotOptimize(
            metrics::write_page(metrics::Format::text, page().snapshot.families, page().own));
    });
}
BENCHMARK(page_text);

void page_openmetrics(benchmark::State &state) {
    measure(state, page().samples, [] {
        benchmark::DoNotOptimize(metrics::write_page(metrics::Format::openmetrics,
                                                     page().snapshot.families, page().own));
    });
}
BENCHMARK(page_openmetrics);

void page_text_by_prometheus_cpp(benchmark::State &state) {
    const prometheus::TextSerializer serializer;
    const prometheus::Serializer &any = serializer;
    measure(state, page().samples,
            [&] { benchmark::DoNotOptimize(any.Serialize(page().families)); });
}
BENCHMARK(page_text_by_prometheus_cpp);

void page_gzip(benchmark::State &state) {
    measure(state, page().samples, [] { benchmark::DoNotOptimize(gpusnoop::gzip(page().text)); });
}
BENCHMARK(page_gzip);

}  // namespace

BENCHMARK_MAIN();

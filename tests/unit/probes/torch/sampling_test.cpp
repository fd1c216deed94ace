// What sampled blocks say of all, and what all calls add up to.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exporter/probes/torch/aggregator.h"
#include "exporter/probes/torch/estimates.h"
#include "tests/unit/probes/driver_records.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr ProcessKey sampled_process{0x7ffffffe, 1'000};
constexpr std::uint64_t sampling_mib = 1U << 20U;

// The programs' tables.
class MadeTables final : public TorchTables {
public:
    [[nodiscard]] std::vector<TorchDeviceTotals> totals() const override { return made_totals; }
    [[nodiscard]] std::optional<torch_sampling> sampling(const ProcessKey &process) const override {
        return process == sampled_process ? made_sampling : std::nullopt;
    }
    void give_up(const ProcessKey &process) const override { given_up.push_back(process); }
    [[nodiscard]] Blocks blocks() const override { return {}; }
    void forget_totals(const ProcessKey & /*process*/, const TorchDevice &device) const override {
        forgotten_devices.push_back(device);
        made_totals.clear();
    }
    void forget_block(const ProcessKey & /*process*/, std::uint64_t address) const override {
        forgotten_blocks.insert(address);
    }

    mutable std::vector<TorchDeviceTotals> made_totals;
    std::optional<torch_sampling> made_sampling =
        torch_sampling{.since_ns = sampled_process.since_ns,
                       .rate = TORCH_FIRST_RATE,
                       .second_ns = 0,
                       .second_samples = 0,
                       .blocks = 0,
                       .missed = 0,
                       .is_given_up = 0};
    mutable std::vector<ProcessKey> given_up;
    mutable std::vector<TorchDevice> forgotten_devices;
    mutable std::set<std::uint64_t> forgotten_blocks;
};

class SamplingBench {
public:
    SamplingBench()
        : aggregator({.series = {.budget = [](std::string_view) { return 1000U; },
                                 .retention = 1min,
                                 .look_up = [](ProcessIdentity &) { return true; }},
                      .ask_for_site =
                          [this](std::uint64_t ticket, const auto &, const Site &site) {
                              aggregator.on_site_name({.ticket = ticket,
                                                       .frames = {},
                                                       .places = {},
                                                       .label = line_of(site.python)});
                          },
                      .is_sampling = true,
                      .tables = [this] { return &tables; },
                      .cost_of = [this](const auto &) { return cost_ns; }}) {}

    static std::string line_of(std::uint64_t python) {
        return "train.py:step:" + std::to_string(python);
    }
    void report(std::uint64_t address, std::int64_t bytes, std::uint64_t weight, std::uint64_t line,
                std::uint64_t at_ns = 2'000) {
        torch_record record{};
        record.head = {at_ns, sampled_process.since_ns, sampled_process.tgid, TORCH_USAGE};
        record.address = address;
        record.bytes = bytes;
        record.stack = -1;
        record.device_type = 1;
        record.flags = TORCH_SAMPLED;
        record.weight = weight;
        record.python = line;
        CHECK(aggregator.on_record(std::as_bytes(std::span(&record, 1))));
    }
    // Of the gauge with this last label; nothing: it is not on the page.
    [[nodiscard]] std::optional<std::uint64_t> value(const std::string &family,
                                                     const std::string &own) {
        for (const auto &[labels, values] : values_of(aggregator.report(), "torch_" + family)) {
            if (labels.back() == own) {
                return values.front();
            }
        }
        return std::nullopt;
    }
    [[nodiscard]] std::optional<std::uint64_t> held_by(std::uint64_t line) {
        return value("memory_site_outstanding_bytes", line_of(line));
    }
    void set_totals(const torch_totals &totals) {
        tables.made_totals = {
            {.process = sampled_process, .device = {.type = 1, .number = 0}, .totals = totals}};
    }

    MadeTables tables;
    std::uint64_t cost_ns = 0;
    TorchAggregator aggregator;
};

// A program with lines that allocate blocks of their own sizes, and later free some of them. Their
// calls are sampled as the programs in the kernel do it.
class SampledModel {
public:
    explicit SampledModel(unsigned seed) : random_(seed) {}

    void run() {
        for (std::size_t line = 0; line < most_bytes.size(); line++) {
            for (std::size_t i = 0; i < blocks.at(line); i++) {
                allocate(line + 1, 512 * (1 + random_() % (most_bytes.at(line) / 512)));
            }
        }
        std::ranges::shuffle(live_, random_);
        for (std::size_t i = live_.size() / 3; i < live_.size(); i++) {
            held[live_[i].line] -= live_[i].bytes;
            if (live_[i].is_sampled) {
                bench.report(live_[i].address, -static_cast<std::int64_t>(live_[i].bytes), 0, 0);
            }
        }
    }

    static constexpr std::array<std::uint64_t, 4> most_bytes = {
        64U << 10U, sampling_mib, 6 * sampling_mib, 64 * sampling_mib};
    static constexpr std::array<std::size_t, 4> blocks = {40'000, 1'500, 300, 60};
    SamplingBench bench;
    std::map<std::uint64_t, std::uint64_t> held;  // bytes by line

private:
    struct Block {
        std::uint64_t line, address, bytes;
        bool is_sampled;
    };

    void allocate(std::uint64_t line, std::uint64_t bytes) {
        const std::uint64_t address = (live_.size() + 1) << 32U;
        const bool is_sampled =
            torch_is_sampled(static_cast<std::uint32_t>(random_()), bytes, TORCH_FIRST_RATE) != 0;
        if (is_sampled) {
            bench.report(address, static_cast<std::int64_t>(bytes),
                         torch_weight(bytes, TORCH_FIRST_RATE), line);
        }
        live_.push_back({line, address, bytes, is_sampled});
        held[line] += bytes;
    }

    std::mt19937 random_;
    std::vector<Block> live_;
};

double difference(std::uint64_t a, std::uint64_t b) {
    return std::abs(static_cast<double>(a) - static_cast<double>(b));
}

}  // namespace

TEST_CASE("estimates of 95 of 100 random programs are within their error, and right on average") {
    std::map<std::uint64_t, int> within;
    std::map<std::uint64_t, double> deviations;
    std::map<std::uint64_t, double> sums;
    for (unsigned seed = 1; seed <= 100; seed++) {
        SampledModel model(seed);
        model.run();
        for (const auto &[line, held] : model.held) {
            const std::uint64_t estimate = model.bench.held_by(line).value_or(0);
            const auto error =
                model.bench.value("memory_site_error_bytes", SamplingBench::line_of(line));
            REQUIRE(error);
            const bool is_within = difference(estimate, held) <= static_cast<double>(*error);
            within[line] += is_within ? 1 : 0;
            deviations[line] += static_cast<double>(estimate) - static_cast<double>(held);
            sums[line] += static_cast<double>(held);
            // It says something: the error is not the whole.
            CHECK(*error < held);
        }
    }
    REQUIRE(within.size() == SampledModel::blocks.size());
    for (const auto &[line, times] : within) {
        CAPTURE(line, times, deviations[line], sums[line]);
        CHECK(times >= 95);
        CHECK(std::abs(deviations[line]) < 0.05 * sums[line]);
    }
}

TEST_CASE("a block of the rate's size and more is always sampled, and stands for itself") {
    for (const std::uint32_t random : {0U, 1U << 31U, 0xffffffffU}) {
        CHECK(torch_is_sampled(random, TORCH_FIRST_RATE, TORCH_FIRST_RATE));
        CHECK(torch_is_sampled(random, std::uint64_t{1} << 40U, TORCH_MAX_RATE));
    }
    CHECK(torch_weight(5 * sampling_mib, TORCH_FIRST_RATE) == 5 * sampling_mib);
    CHECK(torch_weight(512, TORCH_FIRST_RATE) == TORCH_FIRST_RATE);
    // One of 8192 numbers.
    CHECK(torch_is_sampled(0x7ffff, 512, TORCH_FIRST_RATE));
    CHECK_FALSE(torch_is_sampled(0x80000, 512, TORCH_FIRST_RATE));
    CHECK_FALSE(torch_is_sampled(0xffffffff, TORCH_MAX_RATE - 1, TORCH_MAX_RATE));
}

TEST_CASE("lines with less than four samples are in the rest, which the allocator's sum gives") {
    SamplingBench bench;
    bench.report(0x1000, 10 * sampling_mib, 10 * sampling_mib, 1);
    bench.report(0x2000, 6 * sampling_mib, 6 * sampling_mib, 1);
    for (std::uint64_t i = 0; i < 3; i++) {
        bench.report(0x10000 + i, 512, TORCH_FIRST_RATE, 2);
    }
    bench.set_totals({.allocated = 50 * sampling_mib,
                      .reserved = 64 * sampling_mib,
                      .peak = 60 * sampling_mib,
                      .has_totals = 1,
                      .allocations = 900,
                      .allocation_bytes = 70 * sampling_mib,
                      .frees = 100,
                      .free_bytes = 20 * sampling_mib});
    CHECK(bench.held_by(1) == 16 * sampling_mib);
    CHECK_FALSE(bench.held_by(2));
    CHECK(bench.value("memory_site_outstanding_bytes", "[not sampled]") == 34 * sampling_mib);
    CHECK_FALSE(bench.value("memory_site_error_bytes", "[not sampled]"));
    // Small blocks of that line may have been missed.
    CHECK(bench.value("memory_site_error_bytes", SamplingBench::line_of(1)) ==
          error_of_estimate(0, TORCH_FIRST_RATE));
    CHECK(error_of_estimate(0, TORCH_FIRST_RATE) < 5 * TORCH_FIRST_RATE);
    CHECK(bench.value("memory_allocated_bytes", "cuda:0") == 50 * sampling_mib);
    CHECK(bench.value("memory_reserved_bytes", "cuda:0") == 64 * sampling_mib);
    CHECK(bench.value("memory_peak_allocated_bytes", "cuda:0") == 60 * sampling_mib);
    CHECK_FALSE(bench.value("memory_outstanding_bytes", "cuda:0"));
    CHECK(bench.value("memory_allocations_total", "cuda:0") == 900);
    CHECK(bench.value("memory_allocation_bytes_total", "cuda:0") == 70 * sampling_mib);
    CHECK(bench.value("memory_frees_total", "cuda:0") == 100);
    CHECK(bench.value("memory_free_bytes_total", "cuda:0") == 20 * sampling_mib);
    CHECK(bench.value("memory_sample_bytes", std::to_string(sampled_process.tgid)) ==
          TORCH_FIRST_RATE);

    // The fourth sample of the line, at a rate that has doubled since; then it is too few again.
    bench.report(0x20000, 512, 2 * TORCH_FIRST_RATE, 2);
    CHECK(bench.held_by(2) == 5 * TORCH_FIRST_RATE);
    bench.tables.made_sampling->rate = 2 * TORCH_FIRST_RATE;
    CHECK_FALSE(bench.held_by(2));
    CHECK_FALSE(bench.held_by(1));
    CHECK(bench.value("memory_site_outstanding_bytes", "[not sampled]") == 50 * sampling_mib);
}

TEST_CASE("the API has an error of each site that was estimated, and knows if calls are missing") {
    SamplingBench bench;
    bench.report(0x1000, 16 * sampling_mib, 16 * sampling_mib, 1);
    for (std::uint64_t i = 0; i < 5; i++) {
        bench.report(0x10000 + i, 512, TORCH_FIRST_RATE, 2);
    }
    bench.report(0x20000, 512, TORCH_FIRST_RATE, 3);
    torch_totals totals{.allocated = 40 * sampling_mib,
                        .reserved = 40 * sampling_mib,
                        .peak = 40 * sampling_mib,
                        .has_totals = 1,
                        .allocations = 900,
                        .allocation_bytes = 60 * sampling_mib,
                        .frees = 100,
                        .free_bytes = 20 * sampling_mib};
    bench.set_totals(totals);
    (void)bench.aggregator.report();
    auto all = bench.aggregator.allocations();
    REQUIRE(all.size() == 1);
    CHECK(all[0].is_complete);
    CHECK(all[0].amount == Amount{40 * sampling_mib, 7});
    REQUIRE(all[0].sites.size() == 2);
    CHECK(all[0].sites[0].amount == Amount{20 * sampling_mib, 5});
    CHECK(all[0].sites[0].error_bytes > all[0].sites[1].error_bytes);
    CHECK(all[0].sites[1].amount == Amount{16 * sampling_mib, 1});
    CHECK(all[0].sites[1].name.label == SamplingBench::line_of(1));
    bench.tables.made_sampling->missed = 1;
    (void)bench.aggregator.report();
    CHECK_FALSE(bench.aggregator.allocations()[0].is_complete);
    bench.tables.made_sampling->missed = 0;
    totals.free_bytes -= 512;  // it holds a block from before
    bench.set_totals(totals);
    (void)bench.aggregator.report();
    CHECK_FALSE(bench.aggregator.allocations()[0].is_complete);
}

TEST_CASE("a block whose free was lost goes when the programs' table lacks it") {
    SamplingBench bench;
    for (std::uint64_t address = 1; address <= 3; address++) {
        bench.report(address, 16 * sampling_mib, 16 * sampling_mib, 1, 2'000);
    }
    bench.report(4, 16 * sampling_mib, 16 * sampling_mib, 1, 3'000);  // while the table is read
    const ProcessKey gone{77, 5};
    bench.aggregator.reconcile({{sampled_process, {1, 3}}, {gone, {8}}}, 3'000);
    CHECK(bench.held_by(1) == 48 * sampling_mib);
    CHECK(bench.tables.forgotten_blocks == std::set<std::uint64_t>{8});
    bench.aggregator.reconcile({}, 3'001);
    CHECK_FALSE(bench.held_by(1));
}

TEST_CASE("the end of a process is in its last counts, and takes its entries from the tables") {
    SamplingBench bench;
    bench.report(0x1000, 16 * sampling_mib, 16 * sampling_mib, 1);
    torch_totals totals{};
    totals.allocations = 1;
    bench.set_totals(totals);
    (void)bench.aggregator.report();
    totals.allocations = 9;
    bench.set_totals(totals);
    const traced_end_record end{
        {3'000, sampled_process.since_ns, sampled_process.tgid, PROCESS_ENDED}, 0, 0};
    CHECK(bench.aggregator.on_record(std::as_bytes(std::span(&end, 1))));
    CHECK(bench.tables.forgotten_blocks == std::set<std::uint64_t>{0x1000});
    CHECK_FALSE(bench.held_by(1));
    bench.aggregator.tidy(1s);
    CHECK(bench.tables.forgotten_devices.size() == 1);
    CHECK(bench.value("memory_allocations_total", "cuda:0") == 9);
}

TEST_CASE("a process whose start was lost is known by what it has counted, until it ends") {
    SamplingBench bench;
    torch_totals totals{};
    totals.allocations = 5;
    bench.set_totals(totals);
    CHECK_FALSE(bench.value("memory_allocations_total", "cuda:0"));
    bench.aggregator.tidy(std::chrono::nanoseconds(sampled_process.since_ns));
    CHECK_FALSE(bench.value("memory_allocations_total", "cuda:0"));  // the record may be to come
    bench.aggregator.tidy(std::chrono::nanoseconds(sampled_process.since_ns + 1));
    CHECK(bench.value("memory_allocations_total", "cuda:0") == 5);
    SamplingBench other;
    other.set_totals(totals);
    other.tables.made_sampling.reset();
    other.aggregator.tidy(1s);
    CHECK_FALSE(other.value("memory_allocations_total", "cuda:0"));
    CHECK(other.tables.forgotten_devices.size() == 1);
}

TEST_CASE("a process that costs more than its budget is no longer observed") {
    SamplingBench bench;
    bench.report(0x1000, 16 * sampling_mib, 16 * sampling_mib, 1);
    bench.set_totals({.allocated = 16 * sampling_mib,
                      .reserved = 16 * sampling_mib,
                      .peak = 16 * sampling_mib,
                      .has_totals = 1,
                      .allocations = 1,
                      .allocation_bytes = 16 * sampling_mib,
                      .frees = 0,
                      .free_bytes = 0});
    // The programs count half of what a process loses: 0.5 % for a while, and then more.
    std::chrono::nanoseconds now = 1h;
    for (int second = 0; second < 100; second++) {
        bench.aggregator.tidy(now += 1s);
        bench.cost_ns += 2'500'000;
    }
    CHECK(bench.tables.given_up.empty());
    CHECK(bench.held_by(1));
    for (int second = 0; second < 30 && bench.tables.given_up.empty(); second++) {
        bench.aggregator.tidy(now += 1s);
        bench.cost_ns += 10'000'000;
    }
    CHECK(bench.tables.given_up == std::vector{sampled_process});
    CHECK_FALSE(bench.held_by(1));
    CHECK_FALSE(bench.value("memory_site_outstanding_bytes", "[not sampled]"));
    CHECK_FALSE(bench.value("memory_allocated_bytes", "cuda:0"));
    CHECK(bench.value("memory_sample_bytes", std::to_string(sampled_process.tgid)) == 0);
    CHECK_FALSE(bench.aggregator.allocations()[0].is_complete);
    CHECK(bench.tables.forgotten_blocks == std::set<std::uint64_t>{0x1000});
    // What was under way, and calm seconds: it does not come back.
    bench.report(0x2000, 16 * sampling_mib, 16 * sampling_mib, 1);
    for (int second = 0; second < 100; second++) {
        bench.aggregator.tidy(now += 1s);
    }
    CHECK_FALSE(bench.held_by(1));
    CHECK(bench.tables.given_up.size() == 1);
}

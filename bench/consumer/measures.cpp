#include "bench/consumer/measures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <thread>
#include <utility>

#include "bench/results/statistics.h"
#include "exporter/system/machine.h"

namespace gpusnoop::bench {

namespace {

using std::chrono::nanoseconds;

constexpr double million = 1e6;
constexpr double four_million = 4e6;

struct ShareBar {
    unsigned processes;
    double percent;  // of a core, at a million events a second
};
constexpr std::array share_bars = {ShareBar{8, 10}, ShareBar{64, 16}};
constexpr double percent_of_ns = 0.1;  // of an event, at a million a second

double seconds_of(nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

struct Turn {
    Written written;
    Spent spent;
    nanoseconds took{};  // includes the work after the writing

    [[nodiscard]] double cpu_ns_per_event() const {
        return static_cast<double>(spent.cpu.count()) / static_cast<double>(written.events);
    }
    [[nodiscard]] double allocations_per_event() const {
        return static_cast<double>(spent.allocations) / static_cast<double>(written.events);
    }
    [[nodiscard]] double a_second(std::uint64_t count) const {
        return static_cast<double>(count) / seconds_of(took);
    }
    [[nodiscard]] double share_of_core() const { return seconds_of(spent.cpu) / seconds_of(took); }
};

// Waits until it has drained its rings this number of times more.
Result<> wait_for_rounds(const Consumer &consumer, std::uint64_t rounds) {
    const std::uint64_t before = consumer.meter().spent().rounds;
    const nanoseconds until = now_on(CLOCK_MONOTONIC) + std::chrono::seconds(20);
    while (consumer.meter().spent().rounds < before + rounds) {
        if (now_on(CLOCK_MONOTONIC) > until) {
            return fail("the consumer is stuck");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return {};
}

// The first round after the writing empties the rings; it may have been under way, so wait for two.
constexpr std::uint64_t rounds_to_be_done = 2;

Result<Turn> take_turn(const Consumer &consumer, const std::function<Result<Written>()> &write) {
    if (auto waited = wait_for_rounds(consumer, rounds_to_be_done); !waited) {
        return tl::unexpected(waited.error());
    }
    Turn turn;
    const Spent before = consumer.meter().spent();
    const nanoseconds began = now_on(CLOCK_MONOTONIC);
    auto written = write();
    if (!written) {
        return tl::unexpected(written.error());
    }
    if (auto waited = wait_for_rounds(consumer, rounds_to_be_done); !waited) {
        return tl::unexpected(waited.error());
    }
    turn.took = now_on(CLOCK_MONOTONIC) - began;
    turn.spent = consumer.meter().spent() - before;
    turn.written = *written;
    return turn;
}

Result<Turn> take_turn(const Consumer &consumer, Flood &flood, double rate, nanoseconds time) {
    return take_turn(consumer, [&] { return flood.write(rate, time); });
}

// The figures of one number of processes, by round.
struct Costs {
    std::vector<double> counter, exporter, allocations, wakeups;
};

Result<Costs> costs_of(Bench &bench, const Effort &effort, unsigned processes) {
    const auto writers = bench.processes.first(processes);
    for (Flood *flood : {&bench.to_counter, &bench.to_exporter}) {
        if (auto used = flood->use(writers); !used) {
            return tl::unexpected(used.error());
        }
    }
    // Makes the one-time work for each process and its kernels first.
    if (auto warm = take_turn(*bench.exporter, bench.to_exporter, million, effort.turn); !warm) {
        return tl::unexpected(warm.error());
    }
    Costs costs;
    for (unsigned round = 0; round < effort.rounds; round++) {
        const auto counted = take_turn(*bench.counter, bench.to_counter, million, effort.turn);
        const auto exported = take_turn(*bench.exporter, bench.to_exporter, million, effort.turn);
        if (!counted || !exported) {
            return tl::unexpected(!counted ? counted.error() : exported.error());
        }
        costs.counter.push_back(counted->cpu_ns_per_event());
        costs.exporter.push_back(exported->cpu_ns_per_event());
        costs.allocations.push_back(exported->allocations_per_event());
        costs.wakeups.push_back(exported->a_second(exported->spent.sleeps));
    }
    return costs;
}

std::vector<std::string> growth_row(const std::vector<Measured> &counter,
                                    const std::vector<Measured> &exporter) {
    return {"exponent",
            fmt::format("{:.2f}", growth_exponent(counter)),
            fmt::format("{:.2f}", growth_exponent(exporter)),
            "",
            "",
            ""};
}

}  // namespace

Effort quick_effort() {
    Effort effort;
    effort.processes = {1, 8, 64};
    effort.rounds = 2;
    effort.turn = std::chrono::milliseconds(150);
    effort.rates = {1e6, 2e6};
    effort.rate_time = std::chrono::milliseconds(300);
    effort.long_time = std::chrono::seconds(2);
    effort.scrape_interval = std::chrono::milliseconds(500);
    return effort;
}

Result<Bench> Bench::start(std::size_t count) {
    const auto cpus = choose_cpus();
    if (!cpus) {
        return tl::unexpected(cpus.error());
    }
    auto processes = Processes::start(count);
    if (!processes) {
        return tl::unexpected(processes.error());
    }
    if (auto moved = move_to(cpus->consumer); !moved) {
        return tl::unexpected(moved.error());
    }
    auto exporter = Exporter::start();
    if (!exporter) {
        return tl::unexpected(exporter.error());
    }
    auto to_exporter = Flood::into((*exporter)->rings());
    auto to_counter = Flood::alone();
    if (!to_exporter || !to_counter) {
        return tl::unexpected(!to_exporter ? to_exporter.error() : to_counter.error());
    }
    auto counter = Counter::start(to_counter->rings());
    if (!counter) {
        return tl::unexpected(counter.error());
    }
    if (auto moved = move_to(cpus->writer); !moved) {
        return tl::unexpected(moved.error());
    }
    return Bench{*cpus,
                 std::move(*processes),
                 std::move(*exporter),
                 std::move(*counter),
                 std::move(*to_exporter),
                 std::move(*to_counter)};
}

Result<> measure_cost(Bench &bench, const Effort &effort, Results &results) {
    Table table{"Consumer: CPU time per event",
                fmt::format("A BPF program on another CPU writes a million records per second of "
                            "the probe cuda into its own rings, as calls would, for {} ms per "
                            "turn. The exporter takes turns with a libbpf callback that only "
                            "counts the records; {} rounds, medians. Of 64 records, 52 are "
                            "launches (of 64 kernels in 4 shapes), 4 async and 2 sync copies, 2 "
                            "waits, 2 allocations and 2 frees; consecutive records belong to "
                            "different processes. All probes are loaded, with the default "
                            "configuration.",
                            effort.turn.count(), effort.rounds),
                {"traced processes", "callback that counts, ns", "exporter, ns",
                 "ratio (10th to 90th percentile)", "allocations per event", "wakeups per second"}};
    std::vector<Measured> counter;
    std::vector<Measured> exporter;
    for (const unsigned processes : effort.processes) {
        const auto costs = costs_of(bench, effort, processes);
        if (!costs) {
            return tl::unexpected(costs.error());
        }
        const auto ratios = ratios_of(costs->exporter, costs->counter);
        counter.push_back({static_cast<double>(processes), median(costs->counter)});
        exporter.push_back({static_cast<double>(processes), median(costs->exporter)});
        table.rows.push_back({std::to_string(processes), number_text(counter.back().cost),
                              number_text(exporter.back().cost), ratio_text(ratios),
                              fmt::format("{:.6f}", median(costs->allocations)),
                              number_text(median(costs->wakeups))});
        const auto bar = std::ranges::find(share_bars, processes, &ShareBar::processes);
        if (bar == share_bars.end()) {
            continue;
        }
        const double percent = exporter.back().cost * percent_of_ns;
        results.bars.push_back(
            {fmt::format("consumer at 1M events/s, {} traced processes", processes),
             fmt::format("<= {} % of a core", bar->percent), fmt::format("{:.1f} %", percent),
             percent <= bar->percent,
             fmt::format("a callback that only counts the records takes {:.1f} %; the rest is "
                         "reading records that another CPU has just written, and finding the "
                         "process, the kernel's shape and the counters; of 64 records, 2 allocate "
                         "the entry of a live allocation",
                         counter.back().cost * percent_of_ns)});
    }
    if (effort.processes.size() > 1) {
        table.rows.push_back(growth_row(counter, exporter));
    }
    results.tables.push_back(std::move(table));
    return {};
}

Result<> measure_load(Bench &bench, const Effort &effort, Results &results) {
    if (auto used = bench.to_exporter.use(bench.processes.first(usual_processes)); !used) {
        return used;
    }
    Table table{"Consumer: by load",
                fmt::format("The same records of {} processes, at different rates: the share of "
                            "its core that the aggregating thread uses, and how often it wakes "
                            "up.",
                            usual_processes),
                {"events per second", "% of a core", "wakeups per second", "rounds per second"}};
    const auto add_row = [&](std::string name, const Turn &turn) {
        table.rows.push_back({std::move(name), number_text(100 * turn.share_of_core()),
                              number_text(turn.a_second(turn.spent.sleeps)),
                              number_text(turn.a_second(turn.spent.rounds))});
    };
    const auto idle = take_turn(*bench.exporter, [&]() -> Result<Written> {
        std::this_thread::sleep_for(effort.turn);
        return Written{};
    });
    if (!idle) {
        return tl::unexpected(idle.error());
    }
    add_row("none", *idle);
    std::vector<Measured> shares;
    for (const double rate : {million / 100, million / 10, million}) {
        const auto turn = take_turn(*bench.exporter, bench.to_exporter, rate, effort.turn);
        if (!turn) {
            return tl::unexpected(turn.error());
        }
        add_row(fmt::format("{:.0f}", rate), *turn);
        shares.push_back({rate, turn->share_of_core()});
    }
    table.rows.push_back({"exponent", fmt::format("{:.2f}", growth_exponent(shares)), "", ""});
    results.tables.push_back(std::move(table));
    return {};
}

Result<> measure_loss(Bench &bench, const Effort &effort, Results &results) {
    Table table{
        "Consumer: events per second without loss",
        fmt::format("The same records of {} processes. The exporter has one core and the default "
                    "configuration. In the last rows, of {} s, a page is rendered on the same core "
                    "every {} s, as for a scrape. Records that do not fit into the ring are lost.",
                    usual_processes, effort.long_time.count(),
                    number_text(seconds_of(effort.scrape_interval))),
        {"requested per second", "written per second", "seconds", "events", "lost", "% of a core"}};
    const auto add_row = [&](double rate, const Turn &turn) {
        table.rows.push_back(
            {fmt::format("{:.0f}", rate), fmt::format("{:.0f}", turn.written.per_second()),
             number_text(seconds_of(turn.written.took)),
             std::to_string(turn.written.events + turn.written.lost),
             std::to_string(turn.written.lost), number_text(100 * turn.share_of_core())});
    };
    constexpr double fast_enough = 0.95;
    for (const double rate : effort.rates) {
        const auto turn = take_turn(*bench.exporter, bench.to_exporter, rate, effort.rate_time);
        if (!turn) {
            return tl::unexpected(turn.error());
        }
        add_row(rate, *turn);
        if (turn->written.lost > 0 || turn->written.per_second() < fast_enough * rate) {
            break;
        }
    }
    Result<> scraped;
    std::jthread scraper([&](const std::stop_token &stop) {
        scraped = move_to(bench.cpus.consumer);
        nanoseconds next = now_on(CLOCK_MONOTONIC) + effort.scrape_interval;
        while (scraped && !stop.stop_requested()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            if (now_on(CLOCK_MONOTONIC) >= next) {
                next += effort.scrape_interval;
                const auto page = bench.exporter->scrape();
                scraped = page ? Result<>{} : tl::unexpected(page.error());
            }
        }
    });
    for (const double rate : {million, four_million}) {
        const auto turn = take_turn(*bench.exporter, bench.to_exporter, rate, effort.long_time);
        if (!turn) {
            return tl::unexpected(turn.error());
        }
        add_row(rate, *turn);
        const std::uint64_t events = turn->written.events + turn->written.lost;
        results.bars.push_back(
            {fmt::format("events lost at {:.0f}M events/s for {} s", rate / million,
                         effort.long_time.count()),
             "0",
             fmt::format("{} of {}, at {:.0f} per second", turn->written.lost, events,
                         turn->written.per_second()),
             turn->written.lost == 0 && turn->written.per_second() >= fast_enough * rate,
             turn->written.lost > 0
                 ? "the ring was full: other threads used the consumer's core for longer than "
                   "the ring's capacity"
                 : "the writer could not reach this rate: other threads used its core"});
    }
    scraper = {};
    results.tables.push_back(std::move(table));
    return scraped;
}

Result<> check_count(Bench &bench) {
    const auto counted = bench.exporter->launches();
    if (!counted) {
        return tl::unexpected(counted.error());
    }
    const std::uint64_t written = bench.to_exporter.launches();
    return *counted == written
               ? Result<>{}
               : fail(fmt::format("{} launches were written and {} counted: the figures are not "
                                  "those of the work that was to be done",
                                  written, counted->value_or(0)));
}

}  // namespace gpusnoop::bench

// What a probe costs each process, from the totals that its programs count.
#include "exporter/probes/frame/bpf/overhead.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exporter/ebpf/calibration.h"
#include "exporter/metrics/page.h"
#include "exporter/metrics/self.h"
#include "exporter/probes/frame/bpf/overhead_limits.h"
#include "exporter/processes/proc.h"
#include "exporter/system/machine.h"
#include "tests/unit/probes/driver_records.h"
#include "tests/unit/probes/functions/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t since = 1'000;  // as the fixture's records have it

// Processes of the probe `functions`, and what its programs have counted for each.
struct Costs {
    std::map<std::uint32_t, std::uint64_t> counted;  // by tgid
    FunctionsFixture fixture;

    explicit Costs(std::uint32_t budget = 100, OverheadLimitsPtr limits = nullptr)
        : fixture(FunctionsSettings{.budget = [budget](std::string_view) { return budget; },
                                    .retention = 1min,
                                    .cost_of =
                                        [this](const ProcessKey &key) {
                                            const auto found = counted.find(key.tgid);
                                            return found == counted.end() ? 0 : found->second;
                                        },
                                    .overhead = std::move(limits)}) {}

    // A process that started at this time, since boot.
    void start(std::uint32_t tgid, std::uint64_t started_ns, std::uint64_t since_ns = since) {
        func_process_record record = of(tgid, since_ns, process("train"));
        record.identity.start_boottime_ns = started_ns;
        fixture.tell(record);
    }

    void call(std::uint32_t tgid, const std::string &comm) {
        fixture.proc[tgid] = comm;
        fixture.tell(of(tgid, since, probes::call(number)));
    }
    // By the label comm.
    [[nodiscard]] std::map<std::string, std::uint64_t> shown() const {
        std::map<std::string, std::uint64_t> all;
        for (const auto &[labels, values] :
             values_of(fixture.aggregator->report(0ns), "overhead_seconds_total")) {
            CHECK(labels.back() == "functions");
            all[labels.front()] += values.front();
        }
        return all;
    }

    std::uint32_t number = fixture.number("f");
};

using Shown = std::map<std::string, std::uint64_t>;

}  // namespace

TEST_CASE("what a process costs is what its programs have counted since the last page") {
    Costs costs;
    costs.call(7, "train");
    CHECK(costs.shown().empty());
    costs.counted[7] = 1'000;
    CHECK(costs.shown() == Shown{{"train", 1'000}});
    CHECK(costs.shown() == Shown{{"train", 1'000}});
    costs.counted[7] = 2'500;
    CHECK(costs.shown() == Shown{{"train", 2'500}});
}

TEST_CASE("the end of a process brings the rest of its cost, and its id is free for another") {
    Costs costs;
    costs.call(7, "train");
    costs.counted[7] = 1'000;
    CHECK(costs.shown() == Shown{{"train", 1'000}});
    costs.fixture.tell(of(7, since, exit_at(9'000, 4'000)));
    costs.counted[7] = 50;  // of the next process of this id
    CHECK(costs.shown() == Shown{{"train", 4'000}});
}

TEST_CASE("a process that ends before any page was made has its cost all the same") {
    Costs costs;
    costs.call(7, "short");
    costs.fixture.tell(of(7, since, exit_at(9'000, 700)));
    CHECK(costs.shown() == Shown{{"short", 700}});
}

TEST_CASE("the cost of processes with the same labels is their sum, and past the budget other") {
    Costs costs(2);
    for (std::uint32_t tgid = 1; tgid <= 5; tgid++) {
        costs.call(tgid, tgid <= 2 ? "same" : "p" + std::to_string(tgid));
        costs.counted[tgid] = 100;
    }
    std::uint64_t all = 0;
    const Shown shown = costs.shown();  // the first two, whichever these are
    for (const auto &[comm, cost] : shown) {
        CHECK(cost == (comm == "same" ? 200 : comm == "other" ? cost : 100));
        all += cost;
    }
    CHECK(all == 500);
    CHECK(shown.contains("other"));
    CHECK(shown.size() == 3);
}

TEST_CASE("a part of the cost is what it adds to a call, and no less than nothing") {
    const probe_costs costs = ebpf::costs_of({.untraced = 2,
                                              .entry = 402.4,
                                              .stepped_entry = 1'902,
                                              .call = 1'000,
                                              .recorded = 1'500,
                                              .stack = 1'490});
    CHECK(costs.entry == 400);
    CHECK(costs.stepped_entry == 1'900);
    CHECK(costs.ending == 598);
    CHECK(costs.record == 500);
    CHECK(costs.stack == 0);
}

TEST_CASE("what the threads of a process have run") {
    const auto self = static_cast<std::uint32_t>(::getpid());
    const auto before = processes::cpu_time_of(self);
    std::thread([] {
        const auto until = now_on(CLOCK_THREAD_CPUTIME_ID) + 20ms;
        while (now_on(CLOCK_THREAD_CPUTIME_ID) < until) {
        }
    }).join();
    const auto after = processes::cpu_time_of(self);
    REQUIRE(before);
    REQUIRE(after);
    CHECK(*after >= *before + 20ms);  // of a thread that has ended
    CHECK(*after <= now_on(CLOCK_PROCESS_CPUTIME_ID));
    constexpr std::uint32_t nobody = 1U << 23U;  // above the highest id
    CHECK_FALSE(processes::cpu_time_of(nobody));
    CHECK_FALSE(processes::cpu_time_of(0));
}

TEST_CASE("all probes together show no more cost than the process's threads have run") {
    std::optional<std::chrono::nanoseconds> ran = 1'000ns;
    const auto limits = std::make_shared<OverheadLimits>([&](auto) { return ran; });
    Costs one(100, limits);
    Costs two(100, limits);
    one.start(7, 5'000);
    two.start(7, 5'000);
    one.counted[7] = 700;
    CHECK(one.shown() == Shown{{"train", 700}});
    two.counted[7] = 600;
    CHECK(two.shown() == Shown{{"train", 300}});
    one.counted[7] = 900;
    CHECK(one.shown() == Shown{{"train", 700}});
    ran = 1'250ns;  // some of what was not shown can be shown now
    CHECK(two.shown() == Shown{{"train", 550}});
    ran = 5'000ns;
    CHECK(one.shown() == Shown{{"train", 900}});
    CHECK(two.shown() == Shown{{"train", 600}});
}

TEST_CASE("the last records of a process that has ended keep that limit") {
    std::optional<std::chrono::nanoseconds> ran = 1'000ns;
    const auto limits = std::make_shared<OverheadLimits>([&](auto) { return ran; });
    Costs one(100, limits);
    Costs two(100, limits);
    one.start(7, 5'000);
    two.start(7, 5'000);
    one.counted[7] = 800;
    CHECK(one.shown() == Shown{{"train", 800}});
    ran.reset();  // it is gone
    one.counted[7] = 9'000;
    CHECK(one.shown() == Shown{{"train", 800}});
    one.fixture.tell(of(7, since, exit_at(9'000, 5'000, 2'000)));
    two.fixture.tell(of(7, since, exit_at(9'000, 4'000, 2'000)));
    CHECK(one.shown() == Shown{{"train", 2'000}});
    CHECK(two.shown().empty());
    // What was read of it while it ran holds if the record has less.
    ran = 3'000ns;
    one.start(8, 6'000);
    one.counted[8] = 100;
    CHECK(one.shown() == Shown{{"train", 2'100}});
    one.fixture.tell(of(8, since, exit_at(9'000, 5'000, 2'500)));
    CHECK(one.shown() == Shown{{"train", 5'000}});
}

TEST_CASE("a process that ends before any page was made has no more cost than it ran") {
    Costs costs(100, std::make_shared<OverheadLimits>([](auto) { return std::nullopt; }));
    costs.start(7, 5'000);
    costs.fixture.tell(of(7, since, exit_at(9'000, 700, 400)));
    CHECK(costs.shown() == Shown{{"train", 400}});
}

TEST_CASE("each process has its own limit, and each program of it the same") {
    OverheadLimits limits([](auto) { return std::nullopt; });
    const auto share = limits.share_of(7, 10'003ms);
    share->has_run(1us);
    CHECK(share->take(600) == 600);
    CHECK(limits.share_of(7, 10'003ms)->take(600) == 400);  // after an exec
    CHECK(limits.share_of(7, 10s) == share);                // as /proc shows its start
    CHECK(limits.share_of(7, 10'010ms)->take(600) == 600);  // another process
    CHECK(limits.share_of(8, 10'003ms)->take(600) == 600);
    CHECK(limits.share_of(7, 0us)->take(600) == 600);  // who knows which
    for (std::uint32_t tgid = 100; tgid < 5'000; tgid++) {
        CHECK(limits.share_of(tgid, 10'003ms)->take(1) == 1);
    }
    CHECK(limits.share_of(7, 10'003ms) == share);
}

TEST_CASE("what a probe costs on this machine is on the page, by mode and part") {
    const std::string text = metrics::to_text(
        {metrics::cost_family({{ebpf::AttachMode::multi, {1'500, 9'000, 1'200, 600, 700}}})});
    CHECK(text.find(R"(gpusnoop_probe_cost_seconds{mode="multi",part="entry"} 0.0000015)") !=
          std::string::npos);
    CHECK(text.find(R"(gpusnoop_probe_cost_seconds{mode="multi",part="stepped_entry"} 0.000009)") !=
          std::string::npos);
    CHECK(text.find(R"(gpusnoop_probe_cost_seconds{mode="multi",part="stack"} 0.0000007)") !=
          std::string::npos);
}

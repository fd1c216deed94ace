// Programs whose launches go through all levels of observation, up and down, while others start,
// fork, load the runtime and unload it. No link is lost, memory is exact, and no program stays at a
// wrong level.
//
//   GPUSNOOP_LEVELS_SECONDS=900 GPUSNOOP_LEVELS_PROGRAMS=64 probes_tests '[.levels]' -c MODE
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/probes/cuda/levels.h"

using namespace harness;

namespace {

using LevelClock = std::chrono::steady_clock;

double level_seconds_since(LevelClock::time_point start) {
    return std::chrono::duration<double>(LevelClock::now() - start).count();
}

// So many launches in a row of the other kind show that a level is reached.
constexpr double enough_launches = 100;

// How long it takes from now until the last launch of the other kind is on the page.
template <typename Now, typename Before>
double until_only(const std::string &what, const Exporter &exporter, Now now, Before before) {
    const auto start = LevelClock::now();
    const Page first = exporter.scrape();
    double last = before(first);
    double from = now(first);
    double took = 0;
    eventually(what, [&] {
        const Page page = exporter.scrape();
        if (before(page) != last) {
            last = before(page);
            from = now(page);
            took = level_seconds_since(start);
        }
        return now(page) > from + enough_launches;
    });
    return took;
}

double until_counted(const Exporter &exporter, const CountedRun &run) {
    return until_only(
        run.comm + " to be counted", exporter,
        [&](const Page &page) { return run.launches_on(page) - run.timed_on(page); },
        [&](const Page &page) { return run.timed_on(page); });
}

double until_full(const Exporter &exporter, const CountedRun &run) {
    return until_only(
        run.comm + " to be observed in full", exporter,
        [&](const Page &page) { return run.timed_on(page); },
        [&](const Page &page) { return run.launches_on(page) - run.timed_on(page); });
}

// In seconds, the longest of all.
struct Slowest {
    double counted = 0;
    double full = 0;
    double unobserved = 0;
    double full_after_pauses = 0;

    static void note(double took, double &longest) { longest = std::max(longest, took); }
};

class AtTheEdge {
public:
    // At 10 %, a program that only launches is observed intermittently after about a second.
    AtTheEdge(const std::string &mode, std::size_t programs)
        : exporter_("series: {budget: 100000}\n" + levels_config(mode, "10%")),
          holder_(ready_for_launches(exporter_, mode)) {
        std::filesystem::copy_file(standin("12/libcudart.so.12"), copy_);
        for (std::size_t i = 0; i < programs; i++) {
            // Each second one has no pauses between its launches.
            std::vector<std::string> command = {"launcher"};
            if (i % 2 == 0) {
                command.insert(command.end(), {"paced", "20"});
            }
            command.insert(command.end(), {"--rate", "1"});
            programs_.push_back(
                std::make_unique<CountedRun>("edge" + std::to_string(i), std::move(command)));
            programs_.back()->process.wait_for_output("slow");
            programs_.back()->be("idle", SIGUSR1);
        }
    }

    // One program goes up and down, while others come and go.
    void round(std::size_t number) {
        const CountedRun &run = *programs_[number % programs_.size()];
        Process workload = churn("churn_w", {standin("workload"), "--iterations", "30", "--threads",
                                             "2", "--memory-kinds", "--leak", "1000"});
        Process lives = churn("churn_l", {standin("lives"), "name", "churn_l", "forks", "10",
                                          "loads", copy_.string(), "10", "forks", "10"});
        run.be("fast", SIGUSR2);
        Slowest::note(until_counted(exporter_, run), slowest_.counted);
        const bool is_paced = number % programs_.size() % 2 == 0;
        if (!is_paced) {
            const auto start = LevelClock::now();
            run.wait_until_unobserved(exporter_);
            Slowest::note(level_seconds_since(start), slowest_.unobserved);
        }
        run.be("slow", SIGUSR1);
        Slowest::note(until_full(exporter_, run),
                      is_paced ? slowest_.full : slowest_.full_after_pauses);
        run.be("idle", SIGUSR1);
        CHECK(workload.wait() == 0);
        CHECK(lives.wait() == 0);
    }

    // All programs rest.
    void check() {
        for (const auto &run : programs_) {
            CAPTURE(run->comm);
            check_memory(run->comm, truth::read_truth(run->truths.path()));
            check_overhead(*run);
        }
        for (const std::string comm : {"churn_w", "churn_l"}) {
            CAPTURE(comm);
            std::vector<truth::TruthSnapshot> truths;
            for (const auto &one : truth::read_truth(churned_.path())) {
                if (one.comm == comm) {
                    truths.push_back(one);
                }
            }
            REQUIRE_FALSE(truths.empty());
            check_memory(comm, truths);
        }
        check_links();
        check_account_at_rest(exporter_);
    }

    [[nodiscard]] const Slowest &slowest() const { return slowest_; }

private:
    Process churn(const std::string &comm, std::vector<std::string> command) const {
        if (command.front() == standin("workload")) {
            command.insert(command.end(), {"--name", comm});
        }
        return Process(std::move(command), {{"STANDIN_TRUTH_DIR", churned_.path().string()}});
    }

    void check_memory(const std::string &comm,
                      const std::vector<truth::TruthSnapshot> &truths) const {
        const truth::Memory memory = truth::sum(truths).all_memory();
        const Labels of = {{"comm", comm}};
        const auto is = [&](const std::string &what, std::uint64_t value) {
            (void)exporter_.wait_for("gpusnoop_cuda_memory_" + what, of, number(value));
        };
        is("allocations_total", memory.allocations + memory.empty_allocations);
        is("allocated_bytes_total", memory.allocated_bytes);
        is("frees_total", memory.frees);
        is("freed_bytes_total", memory.freed_bytes);
    }

    // Whatever was estimated, a program cannot have lost more time than it ran.
    void check_overhead(const CountedRun &run) const {
        const double cost = exporter_.scrape().sum("gpusnoop_overhead_seconds_total", run.of());
        clockid_t clock{};
        timespec ran{};
        REQUIRE(::clock_getcpuclockid(run.process.pid(), &clock) == 0);
        REQUIRE(::clock_gettime(clock, &ran) == 0);
        CHECK(cost <= static_cast<double>(ran.tv_sec) + static_cast<double>(ran.tv_nsec) * 1e-9);
    }

    // Each program's launches are seen to their end again, and counted to the last.
    void check_links() const {
        struct Before {
            double launches;
            double timed;
            std::uint64_t made;
        };
        const Page page = exporter_.scrape();
        std::vector<Before> before;
        for (const auto &run : programs_) {
            before.push_back({run->launches_on(page), run->timed_on(page), run->truth().launches});
            run->process.signal(SIGUSR1);
        }
        for (std::size_t i = 0; i < programs_.size(); i++) {
            eventually("launches of " + programs_[i]->comm,
                       [&] { return programs_[i]->truth().launches > before[i].made + 20; });
            programs_[i]->rest();
        }
        for (std::size_t i = 0; i < programs_.size(); i++) {
            const CountedRun &run = *programs_[i];
            CAPTURE(run.comm);
            const double made = number(run.truth().launches - before[i].made);
            (void)exporter_.wait_for(counted_launches_family, run.of(), before[i].launches + made);
            (void)exporter_.wait_for(counted_durations_family, run.of(), before[i].timed + made);
        }
    }

    Exporter exporter_;
    Process holder_;
    TemporaryDirectory directory_;
    std::filesystem::path copy_ = directory_ / "libcudart.so.12";
    TemporaryDirectory churned_;
    std::vector<std::unique_ptr<CountedRun>> programs_;
    Slowest slowest_;
};

std::size_t level_programs() {
    const char *const text = std::getenv("GPUSNOOP_LEVELS_PROGRAMS");
    return text != nullptr ? std::strtoul(text, nullptr, 10) : 64;
}

// `most`: how long a program may be at a wrong level, in seconds.
void stay_at_the_edge(const std::string &mode, double most) {
    AtTheEdge edge(mode, level_programs());
    const auto start = LevelClock::now();
    std::size_t rounds = 0;
    do {
        edge.round(rounds++);
    } while (level_seconds_since(start) < levels_seconds());
    edge.check();
    const Slowest &slowest = edge.slowest();
    WARN(mode << ", " << level_programs() << " programs, " << rounds
              << " rounds; seconds at most until launches are counted: " << slowest.counted
              << ", not observed all the time: " << slowest.unobserved << ", in full again: "
              << slowest.full << ", in full after pauses: " << slowest.full_after_pauses);
    CHECK(slowest.counted < most);
    CHECK(slowest.full < most);
    CHECK(slowest.unobserved < most + 1);  // and what the program may save up
}

}  // namespace

TEST_CASE("programs at the edge of the levels of observation lose no link and no memory",
          "[kernel][long]") {
    require_bpf();
    AtTheEdge edge(attach_modes().front(), 4);
    for (std::size_t round = 0; round < 2; round++) {
        edge.round(round);
    }
    edge.check();
}

TEST_CASE("a long time at the edge of the levels of observation", "[.levels]") {
    require_bpf();
    SECTION("session") {
        stay_at_the_edge("session", 2);
    }
    SECTION("multi") {
        stay_at_the_edge("multi", 2);
    }
    SECTION("perf") {
        stay_at_the_edge("perf", 30);
    }
}

#include "exporter/probes/frame/pipeline.h"

#include <linux/bpf.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/ebpf/maps/wakeups.h"

using namespace gpusnoop;
using namespace std::chrono_literals;

namespace {

// Counts its drains, and shows the count.
class CountingProbe : public probes::Probe {
public:
    std::atomic<int> drains = 0;
    std::atomic<bool> slow = false;

    Result<> start() override { return {}; }
    void drain() override {
        drains++;
        if (slow) {
            std::this_thread::sleep_for(200ms);
        }
    }
    std::vector<series::FamilySnapshot> report() override {
        series::Family family(
            {.name = "drains", .help = "Drains.", .type = series::Type::gauge, .labels = {}}, 10);
        family.add(family.slot(1, {}), static_cast<std::uint64_t>(drains.load()));
        return {family.snapshot()};
    }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return {{"drains", 0}};
    }
    [[nodiscard]] std::vector<probes::ApiPage> api_pages(std::string_view name) override {
        if (name != "drains") {
            return {};
        }
        return {{"drains", [count = drains.load()](const probes::QueryParameters &) {
                     return probes::ApiResponse{"text/plain", std::to_string(count)};
                 }}};
    }
    void add_to(probes::Overview &overview) const override {
        auto &memory = overview.memory ? *overview.memory : overview.memory.emplace();
        memory.process_count += static_cast<std::size_t>(drains.load());
    }
    [[nodiscard]] probes::Health health() const override { return {}; }
};

// A pipeline that rests while `is_at_rest`. An hour is longer than any test: what ends a sleep is
// something else.
struct Resting {
    std::atomic<bool> is_at_rest = true;
    std::atomic<int> asked = 0;

    [[nodiscard]] probes::Pipeline::Rest rest() {
        return {.is_now =
                    [this] {
                        asked++;
                        return is_at_rest.load();
                    },
                .longest = 1h};
    }
};

template <typename Condition>
bool wait_until(const Condition &is_true) {
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (!is_true() && std::chrono::steady_clock::now() < until) {
        std::this_thread::yield();
    }
    return is_true();
}

// Has a ring, which drain() empties.
class RingProbe final : public CountingProbe {
public:
    const Fd ring{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    mutable std::uint64_t submit_flags = BPF_RB_NO_WAKEUP;
    std::vector<bool> rests;  // of the pipeline's thread

    void write() const {
        const std::uint64_t records = 1;
        REQUIRE(::write(ring.get(), &records, sizeof(records)) == sizeof(records));
    }
    [[nodiscard]] std::uint64_t flags() const {
        return __atomic_load_n(&submit_flags, __ATOMIC_SEQ_CST);
    }
    void drain() override {
        std::uint64_t records = 0;
        (void)!::read(ring.get(), &records, sizeof(records));
        CountingProbe::drain();
    }
    [[nodiscard]] ebpf::Wakeups wakeups() const override { return {{ring.get()}, &submit_flags}; }
    void set_resting(bool is_resting) override { rests.push_back(is_resting); }
};

}  // namespace

TEST_CASE("at rest, probes are drained less often, until somebody says that it is over") {
    CountingProbe probe;
    Resting resting;
    probes::Pipeline pipeline({&probe}, 1ms, {}, resting.rest());
    REQUIRE(wait_until([&] { return resting.asked > 0; }));
    CHECK(probe.drains == 0);
    for (int times = 1; times <= 3; times++) {
        pipeline.hurry();
        REQUIRE(wait_until([&] { return resting.asked > times; }));
        CHECK(probe.drains == times);
    }
    // A snapshot is taken at once, too.
    REQUIRE(pipeline.snapshot().has_value());
    CHECK(probe.drains == 4);
}

TEST_CASE("a record that comes at rest wakes the pipeline, once") {
    RingProbe probe;
    CountingProbe other;
    Resting resting;
    const probes::Pipeline pipeline({&other, &probe}, 1ms, {}, resting.rest());
    REQUIRE(wait_until([&] { return resting.asked > 0; }));
    for (int times = 1; times <= 3; times++) {
        probe.write();
        REQUIRE(wait_until([&] { return resting.asked > times; }));
        CHECK(probe.drains == times);
        CHECK(other.drains == times);
    }
}

TEST_CASE("a record that the pipeline did not drain wakes it again") {
    struct Full final : CountingProbe {
        const Fd ring{::eventfd(1, EFD_CLOEXEC)};
        [[nodiscard]] ebpf::Wakeups wakeups() const override { return {{ring.get()}, nullptr}; }
    };
    Full probe;
    Resting resting;
    const probes::Pipeline pipeline({&probe}, 1ms, {}, resting.rest());
    CHECK(wait_until([&] { return probe.drains >= 3; }));
}

TEST_CASE("programs wake the pipeline only while it rests, and probes are told when that is") {
    RingProbe probe;
    Resting resting;
    {
        probes::Pipeline pipeline({&probe}, 1h, {}, resting.rest());
        REQUIRE(wait_until([&] { return resting.asked > 0; }));
        REQUIRE(wait_until([&] { return probe.flags() == 0; }));
        resting.is_at_rest = false;
        pipeline.hurry();
        REQUIRE(wait_until([&] { return probe.flags() == BPF_RB_NO_WAKEUP; }));
        // Now it looks by itself, but not for an hour.
        const int drains = probe.drains;
        probe.write();
        REQUIRE(pipeline.snapshot().has_value());
        CHECK(probe.drains == drains + 1);
        resting.is_at_rest = true;
        pipeline.hurry();
        REQUIRE(wait_until([&] { return probe.flags() == 0; }));
        pipeline.hurry();
        REQUIRE(wait_until([&] { return probe.drains == drains + 3; }));
    }
    CHECK(probe.rests == std::vector{true, false, true});
}

TEST_CASE("a pipeline that rests drains what it must at its longest interval") {
    CountingProbe probe;
    const probes::Pipeline pipeline({&probe}, 1ms, {},
                                    {.is_now = [] { return true; }, .longest = 1ms});
    CHECK(wait_until([&] { return probe.drains >= 3; }));
}

TEST_CASE("a snapshot holds what was there when it was asked for") {
    CountingProbe probe;
    probes::Pipeline pipeline({&probe}, 1h);  // drains only when asked
    for (int i = 0; i < 20; i++) {
        const int before = probe.drains;
        const auto snapshot = pipeline.snapshot();
        REQUIRE(snapshot.has_value());
        REQUIRE(snapshot->families.size() == 1);
        CHECK(snapshot->families[0].values.at(0) > static_cast<std::uint64_t>(before));
    }
}

TEST_CASE("documents hold what was there when they were asked for") {
    CountingProbe probe;
    CountingProbe other;
    probes::Pipeline pipeline({&probe, &other}, 1h);
    for (int i = 0; i < 20; i++) {
        const int before = probe.drains;
        const auto documents = pipeline.api_pages("drains");
        REQUIRE(documents.has_value());
        REQUIRE(documents->size() == 2);
        CHECK(documents->front().name == "drains");
        CHECK(pipeline.api_pages("others")->empty());
        CHECK(std::stoi(documents->front().write({})->text) > before);
    }
}

TEST_CASE("the overview is of all probes, as of when it was asked for") {
    CountingProbe probe;
    CountingProbe other;
    probes::Pipeline pipeline({&probe, &other}, 1h);
    for (int i = 0; i < 20; i++) {
        const int before = probe.drains + other.drains;
        const auto overview = pipeline.overview();
        REQUIRE(overview.has_value());
        CHECK(overview->memory.value().process_count == static_cast<std::size_t>(before) + 2);
        CHECK_FALSE(overview->slow_calls.has_value());
    }
}

TEST_CASE("a document does not change when its probe goes on") {
    CountingProbe probe;
    probes::Pipeline pipeline({&probe}, 1h);
    const auto documents = pipeline.api_pages("drains");
    const std::string then = documents->front().write({})->text;
    REQUIRE(pipeline.snapshot().has_value());
    CHECK(documents->front().write({})->text == then);
    CHECK(pipeline.api_pages("drains")->front().write({})->text != then);
}

TEST_CASE("many ask at once and each is answered") {
    CountingProbe probe;
    probes::Pipeline pipeline({&probe}, 1ms);
    std::atomic<int> answered = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 8; i++) {
            threads.emplace_back([&] {
                for (int round = 0; round < 50; round++) {
                    answered += pipeline.snapshot().has_value() ? 1 : 0;
                    answered += pipeline.api_pages("drains").has_value() ? 1 : 0;
                    answered += pipeline.overview().has_value() ? 1 : 0;
                }
            });
        }
    }
    CHECK(answered == 1200);
}

TEST_CASE("who asks in vain is told so, and the pipeline goes on") {
    CountingProbe probe;
    probe.slow = true;
    probes::Pipeline pipeline({&probe}, 1ms);
    const auto impatient = pipeline.snapshot(1ms);
    REQUIRE_FALSE(impatient.has_value());
    CHECK(impatient.error().message == "the aggregation did not answer in time");
    const auto documents = pipeline.api_pages("drains", 1ms);
    REQUIRE_FALSE(documents.has_value());
    CHECK(documents.error().message == impatient.error().message);
    const auto overview = pipeline.overview(1ms);
    REQUIRE_FALSE(overview.has_value());
    CHECK(overview.error().message == impatient.error().message);
    probe.slow = false;
    CHECK(pipeline.snapshot().has_value());
}

TEST_CASE("a family of several probes is one on the page, and what is folded of it is the sum") {
    struct Shared final : probes::Probe {
        std::string own;
        explicit Shared(std::string name) : own(std::move(name)) {}
        Result<> start() override { return {}; }
        void drain() override {}
        static series::FamilySnapshot family(const std::string &name, const std::string &probe) {
            series::Family family({.name = name,
                                   .help = "Of all.",
                                   .type = series::Type::counter,
                                   .labels = {{"probe"}}},
                                  10);
            family.add(family.slot(1, {probe}), 1);
            return family.snapshot();
        }
        std::vector<series::FamilySnapshot> report() override {
            return {family(own + "_total", own), family("shared_total", own)};
        }
        [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
            return {{"shared_total", 2}};
        }
        [[nodiscard]] probes::Health health() const override { return {}; }
    };
    Shared first("one");
    Shared second("two");
    probes::Pipeline pipeline({&first, &second}, 1h);
    const auto snapshot = pipeline.snapshot();
    REQUIRE(snapshot);
    std::vector<std::string> names;
    for (const auto &family : snapshot->families) {
        names.push_back(family.description->name);
    }
    CHECK(names ==
          std::vector<std::string>{"one_total", "shared_total", "shared_total", "two_total"});
    CHECK(snapshot->folded.at("shared_total") == 4);
}

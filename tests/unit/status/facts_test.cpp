// What the page at / is made from: rates, and what is known of files from two sides.
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "exporter/status/facts.h"
#include "exporter/status/rates.h"

using namespace gpusnoop;
using namespace gpusnoop::status;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::seconds;

namespace {

probes::Health probe(const std::string &name, std::uint64_t events, std::uint64_t ring_full = 0) {
    probes::Health health;
    health.name = name;
    health.state = probes::ProbeState::up;
    health.account.events = events;
    health.account.lost[LOST_ring_full] = ring_full;
    return health;
}

class SomeAttacher final : public discovery::Attacher {
public:
    [[nodiscard]] bool wants(std::string_view) const override { return true; }
    Result<> attach(const discovery::Library &) override { return {}; }
    void detach(const FileId &, bool) override {}
    void failed(std::string_view) override {}
};

discovery::FoundLibrary found(std::uint64_t inode, const std::string &path, std::size_t processes,
                              bool is_program = false) {
    return {.id = {.inode = inode},
            .name = path.substr(path.rfind('/') + 1),
            .path = path,
            .is_program = is_program,
            .processes = processes,
            .problems = {}};
}

}  // namespace

TEST_CASE("rates are of the last seconds, not of all time") {
    Rates rates;
    CHECK(rates.is_due(100s));
    CHECK(rates.current(100s, {probe("cuda", 5)}).window == 0s);
    rates.add(100s, {probe("cuda", 1'000'000)});
    CHECK_FALSE(rates.is_due(104s));
    CHECK(rates.is_due(105s));
    SECTION("at first, since there is anything to compare with") {
        const auto current = rates.current(102s, {probe("cuda", 1'000'100, 10)});
        CHECK(current.window == 2s);
        CHECK(current.probes.at("cuda").events == 50);
        CHECK(current.probes.at("cuda").lost == 5);
        CHECK(rates.current(100s, {probe("cuda", 1'000'100)}).probes.empty());
    }
    SECTION("then of five to ten seconds") {
        rates.add(105s, {probe("cuda", 1'000'500)});
        rates.add(110s, {probe("cuda", 1'001'500)});
        // 110 is too young, 105 is the newest that is not.
        auto current = rates.current(112s, {probe("cuda", 1'001'500)});
        CHECK(current.window == 7s);
        CHECK(current.probes.at("cuda").events == 1000.0 / 7);
        current = rates.current(115s, {probe("cuda", 1'001'500)});
        CHECK(current.window == 5s);
        CHECK(current.probes.at("cuda").events == 0);
        // Should nobody have looked for a while, of all that time.
        CHECK(rates.current(210s, {probe("cuda", 1'001'700)}).window == 100s);
        CHECK(rates.current(210s, {probe("cuda", 1'001'700)}).probes.at("cuda").events == 2);
    }
}

TEST_CASE("the rate of a probe that counts from 0 again is not negative, and a new one has one") {
    Rates rates;
    rates.add(10s, {probe("nvlink", 1'000, 7)});
    const auto current = rates.current(20s, {probe("nvlink", 30), probe("fence", 50)});
    CHECK(current.probes.at("nvlink").events == 0);
    CHECK(current.probes.at("nvlink").lost == 0);
    CHECK(current.probes.at("fence").events == 5);
}

TEST_CASE("what is lost of a probe is told by reason, what cannot be decoded too") {
    probes::Health health = probe("cuda", 40, 3);
    health.account.lost[LOST_throttled] = 4;
    health.undecodable = 2;
    health.runs.skipped = 6;
    health.forgotten = 1;
    health.detail = "attached by multi";
    health.attached_functions = 9;
    health.libraries = {{.id = {.inode = 1}, .name = "a", .build = "", .functions = 4},
                        {.id = {.inode = 2}, .name = "b", .build = "", .functions = 5}};
    CHECK(counts_of(health).lost == 16);
    CurrentRates rates;
    rates.probes["cuda"] = {1.5, 0.5};
    const auto facts = probe_facts({health, probe("functions", 0)}, rates);
    REQUIRE(facts.size() == 2);
    CHECK(facts[0].name == "cuda");
    CHECK(facts[0].state == probes::ProbeState::up);
    CHECK(facts[0].detail == "attached by multi");
    CHECK(facts[0].functions == 9);
    CHECK(facts[0].libraries == 2);
    CHECK(facts[0].events == 40);
    CHECK(facts[0].lost == std::map<std::string, std::uint64_t>{{"ring_full", 3},
                                                                {"throttled", 4},
                                                                {"undecodable", 2},
                                                                {"skipped", 6},
                                                                {"forgotten", 1}});
    CHECK(facts[0].rate.events == 1.5);
    CHECK(facts[0].rate.lost == 0.5);
    CHECK(facts[1].lost.empty());
    CHECK(facts[1].rate.events == 0);
}

TEST_CASE("a file is shown with who is attached to it, who is not and why") {
    const SomeAttacher cuda_attacher;
    const SomeAttacher functions_attacher;
    probes::Health cuda = probe("cuda", 0);
    cuda.libraries = {
        {.id = {.inode = 1}, .name = "libcudart.so.12", .build = "aa", .functions = 18},
        {.id = {.inode = 9}, .name = "gone.so", .build = "99", .functions = 1}};
    probes::Health func = probe("functions", 0);
    func.libraries = {{.id = {.inode = 1},
                       .name = "libcudart.so.12",
                       .build = "aa",
                       .functions = 2,
                       .expensive = 1},
                      {.id = {.inode = 4}, .name = "server", .build = "", .functions = 3}};
    auto broken = found(2, "/lib/libbroken.so", 0);
    broken.problems[&functions_attacher] = "not an ELF file";
    auto unreadable = found(5, "", 2);
    unreadable.name = "libcuda.so.1";
    unreadable.problems[&cuda_attacher] = "cannot be opened: Permission denied";
    const auto facts = library_facts(
        {found(1, "/opt/libcudart.so.12", 2), broken, found(3, "/bin/plain", 5, true),
         found(4, "/bin/server", 1, true), unreadable, found(6, "/lib/libnothing.so", 7)},
        {cuda, func},
        {{&cuda_attacher, "cuda"}, {&functions_attacher, "functions"}, {nullptr, "fence"}});

    using Functions = std::map<std::string, std::uint64_t>;
    using Problems = std::map<std::string, std::string>;
    // Those with a problem, then those with the most processes. Not /bin/plain: it is no library,
    // and nothing of it is traced.
    REQUIRE(facts.size() == 6);
    CHECK(facts[0].path == "libcuda.so.1");
    CHECK(facts[0].problems == Problems{{"cuda", "cannot be opened: Permission denied"}});
    CHECK(facts[1].path == "/lib/libbroken.so");
    CHECK(facts[1].problems == Problems{{"functions", "not an ELF file"}});
    CHECK(facts[1].attached.empty());
    CHECK(facts[2].path == "/lib/libnothing.so");
    CHECK(facts[2].processes == 7);
    CHECK(facts[2].attached.empty());
    CHECK(facts[3].path == "/opt/libcudart.so.12");
    CHECK(facts[3].processes == 2);
    CHECK(facts[3].build == "aa");
    CHECK(facts[3].attached == Functions{{"cuda", 18}, {"functions", 2}});
    CHECK(facts[3].expensive == Functions{{"functions", 1}});
    CHECK(facts[4].path == "/bin/server");
    CHECK(facts[4].attached == Functions{{"functions", 3}});
    // Discovery does not know it any more, or not yet.
    CHECK(facts[5].path == "gone.so");
    CHECK(facts[5].processes == 0);
}

TEST_CASE("the past of a process is the last quarter of an hour, and now") {
    Past past;
    CHECK(past.is_due(seconds(0)));
    for (std::uint64_t i = 0; i < 40; i++) {
        const nanoseconds now = Past::interval * static_cast<int>(i);
        REQUIRE(past.is_due(now));
        past.add(now, {{.key = {7, 1}, .bytes = i, .launches = 300 * i}});
        CHECK_FALSE(past.is_due(now + seconds(1)));
    }
    const nanoseconds now = Past::interval * 39 + seconds(15);
    const ProcessPast of = past.of({.key = {7, 1}, .bytes = 100, .launches = 300 * 39 + 150}, now);
    REQUIRE(of.held.size() == Past::most_samples + 1);
    CHECK(of.held.front() == 40 - Past::most_samples);
    CHECK(of.held.back() == 100);
    CHECK(of.launches_per_second == 10);
    // Another process, and one that has ended.
    CHECK(past.of({.key = {7, 2}, .bytes = 5, .launches = 9}, now).held ==
          std::vector<std::uint64_t>{5});
    CHECK_FALSE(past.of({.key = {7, 2}, .bytes = 5, .launches = 9}, now).launches_per_second);
    past.add(now, {});
    CHECK(past.of({.key = {7, 1}, .bytes = 5, .launches = 9}, now).held.size() == 1);
}

TEST_CASE("the number of processes with a past is bounded") {
    Past past;
    std::vector<probes::ProcessSample> samples;
    for (std::uint32_t pid = 1; pid <= 2 * Past::most_processes; pid++) {
        samples.push_back({.key = {pid, 1}, .bytes = 1, .launches = 0});
    }
    past.add(seconds(0), samples);
    CHECK(past.of(samples.front(), seconds(1)).held.size() == 2);
    CHECK(past.of(samples.back(), seconds(1)).held.size() == 1);
}

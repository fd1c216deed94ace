// Starts, ends and signals of processes, against a program that knows how often it did what.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/machine/memory_cgroup.h"
#include "tests/harness/probe_state.h"

using namespace harness;
using Json = nlohmann::json;

namespace {

constexpr auto starts = "gpusnoop_host_process_starts_total";
constexpr auto host_life_exits = "gpusnoop_host_process_exits_total";
constexpr auto lifetimes = "gpusnoop_host_process_lifetime_seconds_count";
constexpr auto host_life_signals = "gpusnoop_host_signals_total";
constexpr auto host_life_enabled = "host: {life: {enabled: true}}\n";

double host_life_probe(const Page &page, const std::string &what, Labels labels = {}) {
    labels["probe"] = "host_life";
    return page.sum("gpusnoop_probe_" + what, labels);
}

Process host_life_lives(std::vector<std::string> steps) {
    steps.insert(steps.begin(), standin("lives"));
    return Process(std::move(steps));
}

void host_life_check_account(const Page &page) {
    CHECK(state_of(page, "host_life") == "up");
    CHECK(host_life_probe(page, "events_lost_total") == 0);
    CHECK(host_life_probe(page, "entries_total") == host_life_probe(page, "events_total"));
}

}  // namespace

TEST_CASE("every start, end and signal of followed processes is counted, by its cause",
          "[kernel][core]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter(attached_by(mode) + host_life_enabled);
    const Process holder = host_life_lives({"wait"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    std::vector<std::string> steps = {
        "name",  "lives_t", "cuda", "exits", "0",      "50",      "exits", "3",      "4",
        "exits", "255",     "2",    "execs", "25",     "crashes", "2",     "killed", "9",
        "3",     "killed",  "15",   "2",     "signal", "12",      "7"};
    const std::map<std::string, std::string> deaths = {
        {"1", "SIGHUP"},   {"2", "SIGINT"},  {"3", "SIGQUIT"}, {"4", "SIGILL"},   {"5", "SIGTRAP"},
        {"6", "SIGABRT"},  {"7", "SIGBUS"},  {"8", "SIGFPE"},  {"13", "SIGPIPE"}, {"14", "SIGALRM"},
        {"24", "SIGXCPU"}, {"31", "SIGSYS"}, {"34", "SIGRT34"}};
    for (const auto &[number, name] : deaths) {
        steps.insert(steps.end(), {"dies", number, "3"});
    }
    steps.insert(steps.end(), {"caller", "wait", "exit", "7"});
    Process process = host_life_lives(steps);
    process.wait_for_output("waiting 1");
    CHECK(host_life_lives({"name", "bystander", "exits", "0", "3", "killed", "9", "1"}).wait() ==
          0);
    const double children = 50 + 4 + 2 + 25 + 2 + 3 + 2 + 3.0 * static_cast<double>(deaths.size());
    Page page = exporter.wait_for(starts, {{"comm", "lives_t"}, {"role", "gpu"}}, 2);
    const auto ended = [&](const std::string &comm, const std::string &cause) {
        return page.sum(host_life_exits, {{"comm", comm}, {"role", "worker"}, {"cause", cause}});
    };
    CHECK(page.sum(starts, {{"comm", "lives_t"}, {"role", "worker"}}) == children + 1);
    CHECK(page.sum(starts, {{"comm", "lives"}, {"role", "worker"}}) == 25);
    CHECK(ended("lives_t", "0") == 50);
    CHECK(ended("lives_t", "3") == 4);
    CHECK(ended("lives_t", "255") == 2);
    CHECK(ended("lives_t", "exec") == 25);
    CHECK(ended("lives", "0") == 25);
    CHECK(ended("lives_t", "SIGSEGV") == 2);
    CHECK(ended("lives_t", "SIGKILL") == 3);
    CHECK(ended("lives_t", "SIGTERM") == 2);
    for (const auto &[number, name] : deaths) {
        CAPTURE(name);
        CHECK(ended("lives_t", name) == 3);
        CHECK(page.sum(host_life_signals, {{"comm", "lives_t"},
                                           {"role", "worker"},
                                           {"signal", name},
                                           {"sender", "self"}}) == 3);
    }
    CHECK(page.sum(host_life_exits, {{"role", "worker"}}) == children + 25);
    CHECK(page.sum(lifetimes, {{"role", "worker"}}) == children);
    const auto got = [&](const std::string &role, const std::string &signal,
                         const std::string &sender) {
        return page.sum(host_life_signals,
                        {{"role", role}, {"signal", signal}, {"sender", sender}});
    };
    CHECK(got("gpu", "SIGUSR2", "self") == 7);
    CHECK(got("worker", "SIGKILL", "process") == 3);
    CHECK(got("worker", "SIGTERM", "process") == 2);
    CHECK(got("worker", "SIGSEGV", "kernel") == 2);
    CHECK(got("gpu", "SIGCHLD", "kernel") == children);
    CHECK_FALSE(page.has(host_life_exits, {{"role", "gpu"}}));

    process.signal(SIGUSR1);
    CHECK(process.wait() == 7);
    // Its child dies with it.
    page = exporter.wait_for(host_life_exits, {{"role", "gpu"}}, 2);
    CHECK(page.sum(host_life_exits, {{"role", "gpu"}, {"cause", "7"}}) == 1);
    CHECK(page.sum(host_life_exits, {{"role", "gpu"}, {"cause", "SIGKILL"}}) == 1);
    const auto of_ours = [&](const std::string &family) {
        return page.sum(family, {{"comm", "lives_t"}}) + page.sum(family, {{"comm", "lives"}});
    };
    CHECK(of_ours(starts) ==
          of_ours(host_life_exits) + 1);  // one started twice: as a worker, and then
    for (const auto *const family : {starts, host_life_exits, lifetimes, host_life_signals}) {
        CHECK_FALSE(page.has(family, {{"comm", "bystander"}}));
    }
    host_life_check_account(page);
}

TEST_CASE("an end by lack of memory is told from one by SIGKILL, and the last ends have senders",
          "[kernel]") {
    require_bpf();
    auto memory = MemoryCgroup::make(64U << 20U);
    if (!memory) {
        missing("a memory controller");
    }
    const Exporter exporter(std::string("cuda: {enabled: false}\ntargets: {comms: [\"eat[e]r\"]}\n"
                                        "labels: {pid: true}\n"
                                        "discovery: {rescan_interval: 1s}\n") +
                            host_life_enabled);
    Process process = host_life_lives({"name", "eater", "wait", "eats", "512", "killed", "9", "1",
                                       "eats", "512", "dies", "6", "1", "wait"});
    process.wait_for_output("waiting 1");
    memory->take(process.pid());
    // By its name, which it took after its start.
    eventually("it to be followed", [&] {
        process.signal(SIGWINCH);
        return exporter.scrape().has(host_life_signals,
                                     {{"signal", "SIGWINCH"}, {"sender", "process"}});
    });
    process.go_on_to(2);
    const Page page = exporter.wait_for(host_life_exits, {{"cause", "oom_kill"}}, 2);
    CHECK(page.sum(host_life_exits, {{"cause", "SIGKILL"}}) == 1);
    CHECK(page.sum(host_life_exits, {{"cause", "SIGABRT"}}) == 1);
    CHECK(page.sum(host_life_exits) == 4);
    const HttpAnswer answer = http(exporter.port(), "/api/v1/exits?comm=eat*");
    REQUIRE(answer.status == 200);
    const Json all = Json::parse(answer.body).at("exits");
    REQUIRE(all.size() == 4);
    const std::vector<std::string> causes = {"SIGABRT", "oom_kill", "SIGKILL", "oom_kill"};
    const std::vector<std::string> senders = {"self", "kernel", "process", "kernel"};
    for (std::size_t i = 0; i < causes.size(); i++) {
        CAPTURE(i, all[i].dump());
        CHECK(all[i].at("cause") == causes[i]);
        CHECK(all[i].at("sender").at("kind") == senders[i]);
        CHECK(all[i].at("code").is_null());
        CHECK(all[i].at("comm") == "eater");
    }
    CHECK(all[2].at("sender").at("pid") == process.pid());
    CHECK(all[2].at("sender").at("comm") == "eater");
    CHECK(all[1].at("signal") == "SIGKILL");
    CHECK(http(exporter.port(), "/api/v1/exits?tid=3").status == 400);
    CHECK(Json::parse(http(exporter.port(), "/api/v1/exits?pid=1").body).at("exits").empty());
    CHECK(Json::parse(http(exporter.port(), "/api/v1/exits?cause=oom_kill&limit=1").body)
              .at("left_out") == 1);
    host_life_check_account(page);
    process.signal(SIGKILL);
    (void)process.wait();
    const Page after =
        exporter.wait_for(host_life_exits, {{"role", "gpu"}, {"cause", "SIGKILL"}}, 2);
    CHECK(after.sum(host_life_exits) == 5);
}

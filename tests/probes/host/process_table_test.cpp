// More processes than the table of followed processes has room for.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "bpf/lib/processes/followed.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

constexpr auto host_process_table_exits = "gpusnoop_host_process_exits_total";
constexpr auto host_process_table_lost = "gpusnoop_probe_events_lost_total";

Process host_process_table_lives(std::vector<std::string> steps) {
    steps.insert(steps.begin(), standin("lives"));
    return Process(std::move(steps));
}

// It has to look at each of so many processes that start at once, before it answers again.
void wait_for_answers(const Exporter &exporter) {
    eventually("the exporter to answer",
               [&] { return http(exporter.port(), "/metrics").status == 200; });
}

}  // namespace

TEST_CASE("processes past the room of the table are counted, each once", "[long]") {
    require_bpf();
    constexpr int children = 20'000;
    Process root =
        host_process_table_lives({"name", "root", "wait", "many", std::to_string(children), "wait",
                                  "disperse", "wait", "exits", "0", "100", "wait"});
    root.wait_for_output("waiting 1");
    // It alone, so that the number of the others is known.
    const Exporter exporter("cuda: {enabled: false}\ntargets: {pids: [" +
                            std::to_string(root.pid()) +
                            "], comms: [\"newc[o]mer\"]}\nhost: {life: {enabled: true}, tasks: "
                            "{enabled: true}}\ndiscovery: {rescan_interval: 10s}\n");
    root.go_on_to(2);
    if (root.output().find("many " + std::to_string(children)) == std::string::npos) {
        missing("room for 20,000 processes");
    }
    constexpr double refused = children + 1 - FOLLOWED_MAX_PROCESSES;
    const auto check = [&](double expected) {
        wait_for_answers(exporter);
        const Page page = exporter.scrape();
        for (const std::string probe : {"host_life", "host_tasks"}) {
            CAPTURE(probe);
            CHECK(page.sum(host_process_table_lost,
                           {{"probe", probe}, {"reason", "process_table"}}) == expected);
        }
        const Labels probe = {{"probe", "host_life"}};
        CHECK(page.sum("gpusnoop_probe_entries_total", probe) ==
              page.sum("gpusnoop_probe_events_total", probe) +
                  page.sum(host_process_table_lost, probe));
    };
    check(refused);

    // A rescan finds it by its name, and then the exporter tries them all once more.
    const Process newcomer = host_process_table_lives({"name", "newcomer", "wait"});
    (void)exporter.wait_for(host_process_table_lost,
                            {{"probe", "host_life"}, {"reason", "process_table"}}, refused + 1);
    ::sleep(3);
    check(refused + 1);

    // Those that have room still have it, and others have it again when these end.
    root.go_on_to(3);
    check(refused + 1);
    const double before =
        exporter.scrape().sum(host_process_table_exits, {{"comm", "root"}, {"cause", "0"}});
    CHECK(before == 0);
    root.go_on_to(4);
    (void)exporter.wait_for(host_process_table_exits,
                            {{"comm", "root"}, {"role", "worker"}, {"cause", "0"}}, 100);
    check(refused + 1);
}

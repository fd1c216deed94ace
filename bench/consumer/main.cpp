// Measures the cost of the exporter's consumer: CPU time and allocations an event, wakeups, and the
// events a second that it takes without losing one.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "bench/consumer/measures.h"
#include "bench/results/results.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/libbpf.h"

using namespace gpusnoop;
using namespace gpusnoop::bench;

namespace {

Result<> run(const Effort &effort, const std::filesystem::path &json) {
    auto bench =
        Bench::start(std::max(usual_processes, *std::ranges::max_element(effort.processes)));
    if (!bench) {
        return tl::unexpected(bench.error());
    }
    Results results;
    for (const auto &measure : {measure_cost, measure_load, measure_loss}) {
        if (auto measured = measure(*bench, effort, results); !measured) {
            return measured;
        }
    }
    if (auto checked = check_count(*bench); !checked) {
        return checked;
    }
    print(results);
    return write_json(results, json);
}

}  // namespace

int main(int argc, char **argv) {
    bool quick = false;
    std::vector<unsigned> processes;
    std::filesystem::path json;
    CLI::App cli("Prints what the exporter's consumer costs. Run it as root.");
    cli.add_flag("--quick", quick, "a few seconds, for a test: the figures say little then");
    cli.add_option("--processes", processes, "only these numbers of traced processes")
        ->check(CLI::Range(1U, most_processes));
    cli.add_option("--json", json, "where to write the tables, for bench/run.py");
    try {
        cli.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        return cli.exit(error) == 0 ? 0 : 1;
    }
    log::set_level(log::Level::error);
    ebpf::route_libbpf_messages();
    Effort effort = quick ? quick_effort() : Effort{};
    if (!processes.empty()) {
        effort.processes = processes;
    }
    if (const auto done = run(effort, json); !done) {
        std::fprintf(stderr, "consumer: %s\n", done.error().message.c_str());
        return 1;
    }
    return 0;
}

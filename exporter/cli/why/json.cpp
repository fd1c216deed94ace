// The JSON of `why`.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "exporter/cli/why/report.h"

namespace gpusnoop::why {

namespace {

using Json = nlohmann::ordered_json;

double seconds(std::uint64_t ns) {
    return static_cast<double>(ns) / 1e9;
}

Json to_json(const Finding &finding) {
    const Process &process = finding.process;
    const probes::Conclusion &conclusion = finding.conclusion;
    Json json = {{"pid", process.pid}};
    processes::add_names(json, process.names);
    json["threads"] = process.threads;
    json["conclusion"] = probes::key_of(conclusion.limit);
    json["share"] = conclusion.share;
    json["sentence"] = probes::sentence_of(conclusion);
    json["advice"] = probes::advice_of(conclusion.limit);
    json["wall_seconds"] = seconds(process.times.cells.wall_ns());
    json["idle_seconds"] = seconds(conclusion.idle_ns);
    json["seconds"] = probes::to_json(process.times.cells);
    json["starved_share"] = conclusion.starved;
    json["launch_gaps"] = probes::to_json(process.times.gaps);
    json["workers"] = probes::to_json(process.times.workers);
    json["call"] = probes::to_json(process.times.call);
    return json;
}

}  // namespace

std::string report_json(const Report &report) {
    Json processes = Json::array();
    for (const Finding &finding : report.findings) {
        processes.push_back(to_json(finding));
    }
    const Json json = {{"elapsed_seconds", seconds(report.elapsed_ns)},
                       {"processes", std::move(processes)}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gpusnoop::why

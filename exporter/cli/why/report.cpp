#include "exporter/cli/why/report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "exporter/base/glob.h"
#include "exporter/cli/why/programs.h"

namespace gpusnoop::why {

Result<Report> report_of(const Times &before, const Times &now, const std::string &name) {
    if (now.elapsed_ns <= before.elapsed_ns) {
        return fail("it was restarted in between: run this again");
    }
    Report report{
        .elapsed_ns = now.elapsed_ns - before.elapsed_ns, .findings = {}, .is_of_all = name == "*"};
    for (const auto &[id, process] : now.processes) {
        if (!matches_glob(name, process.names.comm) && !matches_glob(name, process.names.script)) {
            continue;
        }
        Finding finding{.process = process, .conclusion = {}};
        if (const auto known = before.processes.find(id); known != before.processes.end()) {
            finding.process.times = process.times.since(known->second.times);
        }
        if (const auto conclusion = conclude(finding.process.times, report.elapsed_ns)) {
            finding.conclusion = *conclusion;
            report.findings.push_back(std::move(finding));
        }
    }
    std::ranges::stable_sort(report.findings, is_worse);
    return report;
}

}  // namespace gpusnoop::why

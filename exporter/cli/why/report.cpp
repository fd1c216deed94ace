#include "exporter/cli/why/report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "exporter/base/glob.h"

namespace gpusnoop::why {

Result<Report> report_of(const Times &before, const Times &now, const std::string &comm) {
    if (now.elapsed_ns <= before.elapsed_ns) {
        return fail("it was restarted in between: ask again");
    }
    Report report{.elapsed_ns = now.elapsed_ns - before.elapsed_ns, .findings = {}};
    for (const auto &[id, process] : now.processes) {
        if (!matches_glob(comm, process.names.comm)) {
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
    std::ranges::stable_sort(report.findings, std::ranges::greater{}, [](const Finding &finding) {
        return finding.process.times.cells.wall_ns();
    });
    return report;
}

}  // namespace gpusnoop::why

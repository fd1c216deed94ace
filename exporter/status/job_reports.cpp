// The section of the page at / on what ended jobs have used.
#include <cstddef>
#include <string>

#include "exporter/status/parts.h"
#include "exporter/status/sections.h"

namespace gpusnoop::status {

namespace {

constexpr std::size_t max_report_bytes = 440;

}  // namespace

std::string job_reports_section(const Facts &facts) {
    std::string html = heading(job_reports_list);
    if (!facts.overview.job_reports) {
        return html + not_known(facts, "host_life");
    }
    const probes::JobReportsOverview &reports = *facts.overview.job_reports;
    if (reports.last.empty()) {
        return html + sentence("No job has ended since the start.");
    }
    List list(job_reports_list);
    for (const probes::JobReportOverview &report : reports.last) {
        if (!list.add({time_html(report.ended), text_html(report.sentence, max_report_bytes)})) {
            break;
        }
    }
    return html + list.html(reports.count, ": see <a href=\"./api/v1/exits\">the reports</a>");
}

}  // namespace gpusnoop::status

// What `why` prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/cli/why/times.h"
#include "exporter/probes/host_time/gaps/conclusion.h"

namespace gpusnoop::why {

// A process, with what its launching threads did in between.
struct Finding {
    Process process;
    probes::Conclusion conclusion;
};

struct Report {
    std::uint64_t elapsed_ns = 0;
    std::vector<Finding> findings;  // the worst first
    bool is_of_all = true;          // false: of processes that were asked for
};

// Of the processes whose name or script matches the glob. Fails if the second is of an exporter
// that was started since the first.
[[nodiscard]] Result<Report> report_of(const Times &before, const Times &now,
                                       const std::string &name);

// For each program a sentence and a table of its worst process, and how many are not shown.
[[nodiscard]] std::string report_text(const Report &report);
// An object, in one line.
[[nodiscard]] std::string report_json(const Report &report);

}  // namespace gpusnoop::why

#include "exporter/cli/why/programs.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace gpusnoop::why {

namespace {

using probes::HostLimit;

int rank_of(HostLimit limit) {
    switch (limit) {
        case HostLimit::hangs:
            return 0;
        case HostLimit::gpu:
            return 2;
        case HostLimit::idle:
            return 3;
        default:
            return 1;
    }
}

double limited_ns(const Finding &finding) {
    const std::uint64_t wall = finding.process.times.cells.wall_ns() - finding.conclusion.idle_ns;
    return finding.conclusion.share * static_cast<double>(wall);
}

std::uint64_t least_time(const Report &report) {
    constexpr std::uint64_t second = 1'000'000'000;
    constexpr std::uint64_t part = 10;  // of a time that is too short for programs of a second
    return report.is_of_all ? std::min(second, report.elapsed_ns / part) : 0;
}

}  // namespace

bool is_worse(const Finding &one, const Finding &other) {
    const auto key = [](const Finding &finding) {
        return std::tuple(rank_of(finding.conclusion.limit), -limited_ns(finding));
    };
    return key(one) < key(other);
}

Programs programs_of(const Report &report) {
    using Names = std::tuple<std::string, std::string, std::string, std::string>;
    std::map<Names, Program> by_names;
    for (const Finding &finding : report.findings) {
        const auto &names = finding.process.names;
        Program &program =
            by_names[{names.comm, names.script, names.container, names.slurm_job_id}];
        program.processes.push_back(&finding);
        program.wall_ns += finding.process.times.cells.wall_ns();
    }
    Programs programs{.shown = {}, .least_ns = least_time(report)};
    for (auto &[names, program] : by_names) {
        if (program.wall_ns < programs.least_ns) {
            programs.short_lived++;
            continue;
        }
        std::ranges::stable_sort(program.processes, [](const Finding *one, const Finding *other) {
            return is_worse(*one, *other);
        });
        programs.shown.push_back(std::move(program));
    }
    std::ranges::stable_sort(programs.shown, [](const Program &one, const Program &other) {
        return is_worse(*one.processes.front(), *other.processes.front());
    });
    const std::size_t shown = std::min(programs.shown.size(), most_shown_programs);
    programs.over_limit = programs.shown.size() - shown;
    programs.shown.resize(shown);
    return programs;
}

}  // namespace gpusnoop::why

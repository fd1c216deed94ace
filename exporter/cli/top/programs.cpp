#include "exporter/cli/top/programs.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "exporter/cli/top/metrics_line.h"

namespace gpusnoop::top {

namespace {

ProgramKey key_of(const MetricsLine &line) {
    return {line.label("comm"), line.label("script"), line.label("container_id"),
            line.label("slurm_job_id")};
}

void add_memory(const MetricsLine &line, Program &program) {
    if (line.label("memory_kind") != "pinned_host" && line.value > 0) {
        program.held_bytes += line.value;
        program.gpus.insert(line.label("gpu"));
    }
}

void add(const MetricsLine &line, ProgramsSample &sample) {
    const auto program = [&]() -> Program & { return sample.programs[key_of(line)]; };
    if (line.name == "gpusnoop_process_info") {
        program().processes++;
        if (const std::string pod = line.label("pod_uid"); !pod.empty()) {
            program().pods.insert(pod);
        }
    } else if (line.name == "gpusnoop_cuda_memory_outstanding_bytes") {
        add_memory(line, program());
    } else if (line.name == "gpusnoop_cuda_kernel_launches_total" ||
               line.name == "gpusnoop_cuda_launches_unobserved_total") {
        program().launches += line.value;
    } else if (line.name == "gpusnoop_cuda_memcpy_bytes_total") {
        program().copied_bytes += line.value;
    } else if (line.name == "gpusnoop_cuda_api_errors_total" ||
               line.name == "gpusnoop_function_errors_total") {
        program().errors += line.value;
    } else if (line.name == "gpusnoop_host_launch_thread_seconds_total") {
        program().launching_seconds += line.value;
        program().waiting_seconds += line.label("phase") == "wait" ? line.value : 0;
    } else if (line.name == "gpusnoop_oldest_call_seconds") {
        program().oldest_call_seconds = std::max(program().oldest_call_seconds, line.value);
    } else if (line.name == "gpusnoop_cuda_memory_site_outstanding_bytes") {
        program().sites[line.label("site")] += line.value;
    } else if (line.name == "gpusnoop_torch_memory_site_outstanding_bytes" &&
               line.label("site") != "[not sampled]") {
        program().tensor_sites[line.label("site")] += line.value;
    } else if (line.name == "gpusnoop_build_info") {
        sample.version = line.label("version");
    } else if (line.name == "process_start_time_seconds") {
        sample.began = line.value;
    }
}

// An allocator takes memory for many tensors at once, at the line of any: of a program whose
// tensors are known, their lines are the better answer.
void find_growing_site(const Program &first, const Program &now, ProgramRow &row) {
    const auto find = [&row](const auto &before, const auto &sites) {
        for (const auto &[site, bytes] : sites) {
            const auto known = before.find(site);
            const double grown = bytes - (known == before.end() ? 0 : known->second);
            if (grown > row.site_grown_bytes) {
                row.growing_site = site;
                row.site_grown_bytes = grown;
            }
        }
    };
    find(first.tensor_sites, now.tensor_sites);
    if (row.growing_site.empty()) {
        find(first.sites, now.sites);
    }
}

}  // namespace

Result<ProgramsSample> parse_programs(std::string_view page) {
    ProgramsSample sample;
    while (!page.empty()) {
        const std::size_t end = page.find('\n');
        if (const auto line = parse_metrics_line(page.substr(0, end))) {
            add(*line, sample);
        }
        page.remove_prefix(end == std::string_view::npos ? page.size() : end + 1);
    }
    if (sample.version.empty()) {
        return fail("its metrics are not those of a gpusnoop_exporter");
    }
    // What has ended has counts still.
    std::erase_if(sample.programs, [](const auto &one) { return one.second.processes == 0; });
    return sample;
}

std::vector<ProgramRow> compare(const ProgramsSample &first, const ProgramsSample &before,
                                const ProgramsSample &now, double seconds) {
    std::vector<ProgramRow> rows;
    for (const auto &[key, program] : now.programs) {
        ProgramRow row{.key = key, .now = program};
        const auto at_first = first.programs.find(key);
        const Program &then = at_first == first.programs.end() ? Program() : at_first->second;
        row.grown_bytes = program.held_bytes - then.held_bytes;
        find_growing_site(then, program, row);
        const auto known = before.programs.find(key);
        if (known != before.programs.end() && seconds > 0) {
            const auto rate = [&](double Program::*member) {
                return std::max(0.0, program.*member - known->second.*member) / seconds;
            };
            row.launches = rate(&Program::launches);
            row.copied_bytes = rate(&Program::copied_bytes);
            row.errors = rate(&Program::errors);
            row.launching_seconds = rate(&Program::launching_seconds);
            row.waiting_seconds = rate(&Program::waiting_seconds);
        }
        rows.push_back(std::move(row));
    }
    std::ranges::sort(rows, [](const ProgramRow &a, const ProgramRow &b) {
        return std::tie(b.now.held_bytes, b.now.launches, a.key) <
               std::tie(a.now.held_bytes, a.now.launches, b.key);
    });
    return rows;
}

void sort_by_errors(std::vector<ProgramRow> &rows) {
    std::ranges::stable_sort(rows, std::ranges::greater{}, &ProgramRow::errors);
}

}  // namespace gpusnoop::top

// The text of `why`.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/cli/why/report.h"
#include "exporter/probes/host_time/calls.h"
#include "exporter/probes/host_time/process_times.h"

namespace gpusnoop::why {

namespace {

// Smaller shares are left out of texts.
constexpr double least_shown_percent = 0.5;

// With as many decimals as all of them need, of so much time.
std::string seconds_text(std::uint64_t ns, std::uint64_t wall_ns) {
    constexpr std::uint64_t long_ns = 5'000'000'000;
    return fmt::format("{:.{}f} s", static_cast<double>(ns) / 1e9, wall_ns >= long_ns ? 1 : 2);
}

double percent(std::uint64_t ns, std::uint64_t wall_ns) {
    return 100 * static_cast<double>(ns) / static_cast<double>(wall_ns);
}

// "71 % pipe, 18 % throttled, 11 % running".
std::string gap_states_text(const probes::GapTimes::Sum &sum) {
    std::vector<std::pair<std::uint64_t, std::string_view>> states;
    for (std::uint32_t state = 0; state < HOST_GAP_STATES; state++) {
        states.emplace_back(sum.state_ns[state], probes::host_gap_state_name(state));
    }
    std::ranges::stable_sort(states, std::ranges::greater{}, [](auto &one) { return one.first; });
    const std::uint64_t explained = sum.explained_ns();
    states.emplace_back(sum.ns > explained ? sum.ns - explained : 0, "in short gaps");
    std::string text;
    for (const auto &[ns, name] : states) {
        const double part = percent(ns, sum.ns);
        text += part < least_shown_percent
                    ? ""
                    : fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", part, name);
    }
    return text;
}

std::string line(std::string_view what, const probes::GapTimes::Sum &sum, std::uint64_t wall_ns) {
    return percent(sum.ns, wall_ns) < least_shown_percent
               ? ""
               : fmt::format("  {} had no work from it for {}, in {} gap{}: {}.\n", what,
                             seconds_text(sum.ns, wall_ns), sum.gaps, sum.gaps == 1 ? "" : "s",
                             gap_states_text(sum));
}

// A line for the gaps after waits for the device, and one for those after waits for a stream, if
// they have half a percent of the time.
std::string gaps_text(const probes::GapTimes &gaps, std::uint64_t wall_ns) {
    return line("The GPU", gaps.by_drain[HOST_DRAIN_device], wall_ns) +
           line("A stream", gaps.by_drain[HOST_DRAIN_stream], wall_ns);
}

// Their other threads, such as those of pools, are idle in the other ones.
constexpr std::array<std::uint32_t, 10> told_states = {
    HOST_STATE_running,    HOST_STATE_runnable, HOST_STATE_throttled, HOST_STATE_io_uring,
    HOST_STATE_file,       HOST_STATE_socket,   HOST_STATE_pipe,      HOST_STATE_device,
    HOST_STATE_page_fault, HOST_STATE_memory};

// "file (mostly nfs, 44.0 ms each)".
std::string state_text(std::uint32_t state, const probes::WorkerTimes &workers) {
    const std::string name(probes::host_state_name(state));
    const auto most = std::ranges::max_element(workers.files, {},
                                               [](const auto &entry) { return entry.second.ns; });
    if (state != HOST_STATE_file || most == workers.files.end() || most->second.waits == 0) {
        return name;
    }
    const auto &[filesystem, waits] = *most;
    return fmt::format("{} (mostly {}, {:.1f} ms each)", name, filesystem,
                       static_cast<double>(waits.ns) / static_cast<double>(waits.waits) / 1e6);
}

// A line, or nothing: it has none, or they did nothing.
std::string workers_text(const probes::WorkerTimes &workers, std::uint64_t elapsed_ns) {
    constexpr std::size_t most = 3;
    const std::uint64_t all_ns = workers.processes * elapsed_ns;
    if (all_ns == 0) {
        return "";
    }
    std::vector<std::pair<std::uint64_t, std::uint32_t>> largest;
    for (const std::uint32_t state : told_states) {
        if (percent(workers.state_ns[state], all_ns) >= least_shown_percent) {
            largest.emplace_back(workers.state_ns[state], state);
        }
    }
    std::ranges::stable_sort(largest, std::ranges::greater{}, [](auto &one) { return one.first; });
    largest.resize(std::min(largest.size(), most));
    std::string text;
    for (const auto &[ns, state] : largest) {
        text += fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", percent(ns, all_ns),
                            state_text(state, workers));
    }
    return text.empty() ? ""
                        : fmt::format("  Its {}: {}.\n",
                                      workers.processes == 1
                                          ? "worker"
                                          : std::to_string(workers.processes) + " workers",
                                      text);
}

using probes::HostLimit;

enum class Row : std::uint8_t { wait, host, blocked, launch, copy, memory, other, no_cpu };

struct RowText {
    std::string_view name;
    bool is_always_shown;
};

// In the order of Row.
constexpr std::array<RowText, 8> rows = {{
    {"waiting for the GPU", true},
    {"running on the host", true},
    {"blocked on the host", true},
    {"inside launches", false},
    {"inside asynchronous copies", false},
    {"inside CUDA calls that allocate", false},
    {"inside other CUDA calls", false},
    {"ready or running, no CPU", true},
}};

Row row_of(HostLimit limit) {
    switch (limit) {
        case HostLimit::gpu:
            return Row::wait;
        case HostLimit::launches:
            return Row::launch;
        case HostLimit::copies:
            return Row::copy;
        case HostLimit::memory_calls:
            return Row::memory;
        case HostLimit::cuda_calls:
            return Row::other;
        case HostLimit::host:
            return Row::host;
        case HostLimit::throttled:
        case HostLimit::no_cpu:
        case HostLimit::stolen:
            return Row::no_cpu;
        default:
            return Row::blocked;
    }
}

std::string_view meaning_of(Row row, std::uint32_t state) {
    if (state == HOST_STATE_running) {
        return row == Row::wait ? "it spins" : "";
    }
    switch (state) {
        case HOST_STATE_throttled:
            return "by the CPU limit of its cgroup";
        case HOST_STATE_runnable:
            return "others have the CPUs";
        case HOST_STATE_stolen:
            return "by interrupts or the hypervisor";
        default:
            break;
    }
    if (row != Row::blocked) {
        return "";
    }
    switch (state) {
        case HOST_STATE_futex:
            return "another thread: a lock or a queue";
        case HOST_STATE_poll:
        case HOST_STATE_pipe:
            return "another process: a data loader";
        case HOST_STATE_socket:
            return "another process or machine";
        case HOST_STATE_sleep:
            return "it sleeps by itself";
        case HOST_STATE_child:
            return "the end of a process that it started";
        case HOST_STATE_io_uring:
        case HOST_STATE_file:
            return "storage";
        case HOST_STATE_device:
            return "a driver or a terminal";
        case HOST_STATE_page_fault:
            return "memory that is swapped out, or mapped and cold";
        case HOST_STATE_memory:
            return "changes of the address space";
        case HOST_STATE_stopped:
            return "a signal or a debugger";
        default:
            return "";
    }
}

using Sums = std::array<std::array<std::uint64_t, HOST_STATE_COUNT>, rows.size()>;

Sums sums_of(const Finding &finding) {
    Sums sums{};
    for (std::uint32_t phase = 0; phase < HOST_PHASE_COUNT; phase++) {
        for (std::uint32_t state = 0; state < HOST_STATE_COUNT; state++) {
            const Row row = row_of(probes::limit_of(phase, state));
            sums[static_cast<std::size_t>(row)][state] +=
                finding.process.times.cells.ns[phase][state];
        }
    }
    sums[static_cast<std::size_t>(Row::blocked)][HOST_STATE_futex] -= finding.conclusion.idle_ns;
    return sums;
}

// "2.4 s pipe (another process: a data loader), 0.3 s file (storage)": the largest states.
std::string states_text(Row row, const std::array<std::uint64_t, HOST_STATE_COUNT> &states,
                        std::uint64_t wall_ns) {
    constexpr std::size_t most = 3;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> largest;
    for (std::uint32_t state = 0; state < HOST_STATE_COUNT; state++) {
        if (percent(states[state], wall_ns) >= least_shown_percent) {
            largest.emplace_back(states[state], state);
        }
    }
    std::ranges::stable_sort(largest, std::ranges::greater{}, [](auto &one) { return one.first; });
    largest.resize(std::min(largest.size(), most));
    std::string text;
    for (const auto &[ns, state] : largest) {
        const std::string_view meaning = meaning_of(row, state);
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", seconds_text(ns, wall_ns),
                            probes::host_state_name(state));
        text += meaning.empty() ? "" : fmt::format(" ({})", meaning);
    }
    return row == Row::host ? "" : text;
}

std::string table_text(const Finding &finding, std::uint64_t wall_ns) {
    const Sums sums = sums_of(finding);
    std::string text;
    for (std::size_t i = 0; i < rows.size(); i++) {
        std::uint64_t sum = 0;
        for (const std::uint64_t ns : sums[i]) {
            sum += ns;
        }
        if (!rows[i].is_always_shown && percent(sum, wall_ns) < least_shown_percent) {
            continue;
        }
        const std::string line =
            fmt::format("  {:<32}{:>9}{:>5.0f} %   {}", rows[i].name, seconds_text(sum, wall_ns),
                        percent(sum, wall_ns), states_text(static_cast<Row>(i), sums[i], wall_ns));
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

std::string counted(std::size_t number, std::string_view thing) {
    return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

// "train.py (pid 42, the worst of 8 processes, Slurm job 4711)".
std::string name_of(const Program &program) {
    const Process &process = program.processes.front()->process;
    const auto &names = process.names;
    const std::size_t processes = program.processes.size();
    return fmt::format("{} (pid {}{}{})", names.script.empty() ? names.comm : names.script,
                       process.pid,
                       processes == 1 ? "" : fmt::format(", the worst of {} processes", processes),
                       names.slurm_job_id.empty() ? "" : ", Slurm job " + names.slurm_job_id);
}

// "  Its 8 processes: 1 throttled, 7 gpu.", as they are ordered.
std::string conclusions_text(const Program &program) {
    std::vector<std::pair<std::string_view, std::size_t>> conclusions;
    for (const Finding *const finding : program.processes) {
        const std::string_view key = probes::key_of(finding->conclusion.limit);
        const auto known = std::ranges::find(conclusions, key, [](auto &one) { return one.first; });
        if (known == conclusions.end()) {
            conclusions.emplace_back(key, 1);
        } else {
            known->second++;
        }
    }
    std::string text;
    for (const auto &[key, count] : conclusions) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, key);
    }
    return program.processes.size() == 1
               ? ""
               : fmt::format("  Its {} processes: {}.\n", program.processes.size(), text);
}

std::string program_text(const Program &program, std::uint64_t elapsed_ns) {
    const Finding &finding = *program.processes.front();
    const Process &process = finding.process;
    const std::uint64_t idle = finding.conclusion.idle_ns;
    const std::uint64_t wall = process.times.cells.wall_ns() - idle;
    std::string text =
        fmt::format("{}, {} of its {}:\n{}{}\n{}\n", name_of(program), seconds_text(wall, wall),
                    process.threads <= 1 ? "launching thread"
                                         : std::to_string(process.threads) + " launching threads",
                    sentence_of(finding.conclusion),
                    finding.site.empty() ? "" : " It was called at " + finding.site + ".",
                    advice_of(finding.conclusion.limit));
    text += table_text(finding, wall);
    if (idle > 0 && process.threads > 1) {
        text += fmt::format("  (plus {} in which one of them waited for another)\n",
                            seconds_text(idle, wall));
    }
    text += gaps_text(process.times.gaps, std::min(wall, elapsed_ns));
    text += workers_text(process.times.workers, elapsed_ns);
    return text + conclusions_text(program);
}

std::string not_shown_text(const Programs &programs) {
    std::string text;
    if (programs.over_limit > 0) {
        text = counted(programs.over_limit, "more program");
    }
    if (programs.short_lived > 0) {
        text += fmt::format("{}{} with less than {} of launching threads",
                            text.empty() ? "" : ", and ", counted(programs.short_lived, "program"),
                            seconds_text(programs.least_ns, programs.least_ns));
    }
    return text.empty()
               ? ""
               : "Not shown: " + text + ". To see one of them, name it: --comm=GLOB or --pid=N.\n";
}

}  // namespace

std::string report_text(const Report &report) {
    if (report.findings.empty()) {
        return "No running process has launched GPU work since the exporter started.\n";
    }
    const Programs programs = programs_of(report);
    std::string text;
    for (const Program &program : programs.shown) {
        text += (text.empty() ? "" : "\n") + program_text(program, report.elapsed_ns);
    }
    const std::string not_shown = not_shown_text(programs);
    return text + (text.empty() || not_shown.empty() ? "" : "\n") + not_shown;
}

}  // namespace gpusnoop::why

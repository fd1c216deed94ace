// The processes, their calls that do not return, and the GPUs that they hold memory on, for the
// page at /.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/text/quantity_text.h"
#include "exporter/probes/frame/python/stacks.h"
#include "exporter/status/parts.h"
#include "exporter/status/sections.h"

namespace gpusnoop::status {

namespace {

constexpr std::size_t shown_holders = 3;

std::string age_html(const probes::InFlightOverview &open, const probes::OpenCall &call) {
    return age_text(static_cast<double>(open.now_ns - std::min(open.now_ns, call.began_ns)) / 1e9);
}

// The oldest call that the process is inside of. Empty: none.
std::string open_call_html(const Facts &facts, std::uint32_t pid) {
    if (!facts.overview.in_flight) {
        return dim("not known");
    }
    const probes::InFlightOverview &open = *facts.overview.in_flight;
    const auto call = std::ranges::find(open.oldest, pid, &probes::OpenCall::pid);
    return call == open.oldest.end() ? ""
                                     : code(call->function, max_function_bytes) +
                                           " <b class=\"note\">" + age_html(open, *call) + "</b>";
}

std::string errors_html(const probes::CallCounts &calls) {
    return count_text(calls.errors) +
           (calls.out_of_memory == 0
                ? ""
                : "<br><b class=\"bad\">" + count_text(calls.out_of_memory) + " out of memory</b>");
}

// The word; the sentence once it is opened.
std::string verdict_html(const probes::ProcessOverview &process) {
    if (process.verdict.empty()) {
        return dim("not known");
    }
    std::string word = text_html(process.verdict);
    std::ranges::replace(word, '_', ' ');
    const std::string_view tag = process.verdict == "hangs" ? "<b class=\"bad\">" : "<b>";
    return "<details id=\"limit-" + std::to_string(process.pid) + "\"><summary>" +
           std::string(tag) + word + "</b></summary>" +
           text_html(process.limit, probes::max_limit_bytes) + "</details>";
}

// Of a script the executable is its interpreter, which says nothing.
std::string process_cell(const Facts &facts, const probes::ProcessOverview &process) {
    return process_html(process.names, process.pid) +
           (process.names.script.empty() ? "<p>" + code(process.exe) + "</p>" : "") +
           (facts.may_profile ? "<p>profile: " + profile_links_html(process.pid) + "</p>" : "");
}

std::string gpus_html(const std::vector<std::string> &gpus) {
    std::string html;
    for (const std::string &gpu : gpus) {
        html += (html.empty() ? "" : ", ") + text_html(gpu);
    }
    return html;
}

std::vector<std::string> row_of(const Facts &facts, std::size_t at) {
    const probes::ProcessOverview &process = facts.overview.memory->processes[at];
    const ProcessPast past = at < facts.past.size() ? facts.past[at] : ProcessPast();
    const std::string at_least = process.is_complete ? "" : "&ge; ";
    return {process_cell(facts, process),
            at_least + bytes_text(process.outstanding.bytes) + "<p>" +
                counted(process.outstanding.count, "allocation", "allocations") + "</p>",
            growth_html(past.held),
            gpus_html(process.gpus),
            past.launches_per_second ? rate_html(*past.launches_per_second) : dim("not yet known"),
            errors_html(process.calls),
            verdict_html(process),
            open_call_html(facts, process.pid)};
}

// Those that hang, then those that hold the most, as their places in the overview.
std::vector<std::size_t> worst_first(const std::vector<probes::ProcessOverview> &processes) {
    std::vector<std::size_t> order(processes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_partition(order,
                                  [&](std::size_t at) { return processes[at].verdict == "hangs"; });
    return order;
}

// What the table does not say of itself.
std::string about_processes(const Facts &facts) {
    std::string html =
        "Launches per second: over the last 30 to 60 seconds. Errors: all since the process was "
        "first observed.";
    if (!facts.overview.memory->is_complete) {
        html +=
            " &ge;: the process ran before the probes were attached, and may hold memory from "
            "before.";
    }
    const auto &processes = facts.overview.memory->processes;
    if (std::ranges::all_of(processes, [](const auto &one) { return one.verdict.empty(); })) {
        const std::string why = why_unknown(facts, "host_time");
        html += why.empty() ? "" : " There are no verdicts: " + why + ".";
    } else {
        html += " Verdict: what limits the process; open it for the sentence.";
    }
    return sentence(dim(html));
}

// The line of Python that waits, if there is one, and all of the stack.
std::string place_html(const std::vector<symbols::Frame> &stack, std::uint32_t tid) {
    const auto line = std::ranges::find_if(stack, probes::is_python);
    return (line == stack.end() ? "" : code(line->function, max_function_bytes)) +
           stack_html(stack, std::to_string(tid));
}

// If there are more than are shown, those come first on which the most is held.
std::vector<const probes::GpuOverview *> shown_gpus(const std::vector<probes::GpuOverview> &all) {
    std::vector<const probes::GpuOverview *> gpus;
    for (const probes::GpuOverview &gpu : all) {
        gpus.push_back(&gpu);
    }
    if (gpus.size() > gpus_list.max_rows) {
        std::ranges::stable_sort(gpus, std::ranges::greater(), &probes::GpuOverview::bytes);
    }
    return gpus;
}

std::string holders_html(const probes::GpuOverview &gpu) {
    std::string html;
    const std::size_t shown = std::min(gpu.holders.size(), shown_holders);
    for (std::size_t i = 0; i < shown; i++) {
        const probes::HolderOverview &holder = gpu.holders[i];
        html +=
            "<li>" + bytes_text(holder.bytes) + " " + short_process_html(holder.names, holder.pid) +
            (holder.names.user.empty() ? ""
                                       : " <small>of " + text_html(holder.names.user) + "</small>");
    }
    if (html.empty()) {
        return dim("nobody");
    }
    return "<ul>" + html + "</ul>" +
           (gpu.holder_count > shown
                ? dim("and " + counted(gpu.holder_count - shown, "other", "others"))
                : "");
}

}  // namespace

std::string processes_section(const Facts &facts) {
    std::string html = heading(processes_list);
    if (!facts.overview.memory) {
        return html + not_known(facts, "cuda");
    }
    const probes::MemoryOverview &memory = *facts.overview.memory;
    if (memory.processes.empty()) {
        return html + sentence("No running process has used CUDA yet.");
    }
    html +=
        sentence(counted(memory.process_count, "process holds ", "processes hold ") +
                 (memory.is_complete ? "" : "at least ") + bytes_text(memory.outstanding.bytes) +
                 " in " + counted(memory.outstanding.count, "allocation", "allocations") + ".");
    List list(processes_list);
    for (const std::size_t at : worst_first(memory.processes)) {
        if (!list.add(row_of(facts, at))) {
            break;
        }
    }
    return html +
           list.html(memory.process_count,
                     ", which hold less: see <a href=\"./api/v1/allocations?limit=0\">all</a>") +
           about_processes(facts);
}

std::string in_flight_section(const Facts &facts) {
    std::string html = heading(in_flight_list);
    if (!facts.overview.in_flight) {
        return html + not_known(facts, "in_flight");
    }
    const probes::InFlightOverview &open = *facts.overview.in_flight;
    const std::string min_age = duration_text(std::chrono::duration<double>(open.min_age).count());
    if (open.oldest.empty()) {
        return html + sentence("No call has been running for " + min_age + " or longer.");
    }
    html +=
        sentence(counted(open.count, "call has been running for ", "calls have been running for ") +
                 min_age + " or longer.");
    auto stacks =
        open.stacks ? open.stacks() : std::map<std::uint32_t, std::vector<symbols::Frame>>();
    List list(in_flight_list);
    for (const probes::OpenCall &call : open.oldest) {
        if (!list.add(
                {code(call.function, max_function_bytes) + "<p>" + text_html(call.library) + "</p>",
                 age_html(open, call), process_html(call, call.pid),
                 text_html(call.thread) + " <small>tid " + std::to_string(call.tid) + "</small>",
                 text_html(call.gpu), place_html(stacks[call.tid], call.tid)})) {
            break;
        }
    }
    return html + list.html(open.count, ", which began later") +
           sentence(
               "<a href=\"./api/v1/in_flight\">All of them, with arguments and kernel stacks</a>");
}

std::string gpus_section(const Facts &facts) {
    std::string html = heading(gpus_list);
    if (!facts.overview.memory) {
        return html + not_known(facts, "cuda");
    }
    const auto &gpus = facts.overview.memory->gpus;
    if (gpus.empty()) {
        return html + sentence("The driver names no GPU, and no process holds memory on one.");
    }
    List list(gpus_list);
    for (const probes::GpuOverview *gpu : shown_gpus(gpus)) {
        if (!list.add({text_html(gpu->gpu),
                       gpu->name.empty() ? dim("not known") : text_html(gpu->name),
                       bytes_text(gpu->bytes), holders_html(*gpu)})) {
            break;
        }
    }
    return html +
           list.html(gpus.size(),
                     ", on which less is held: see <a href=\"./api/v1/allocations?limit=0\">all "
                     "allocations</a>") +
           sentence(dim("Memory that processes have allocated, without pinned host memory and "
                        "without CUDA contexts, which nvidia-smi includes."));
}

}  // namespace gpusnoop::status

#include "exporter/probes/frame/allocations_api.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "exporter/base/text.h"
#include "exporter/probes/frame/frame_json.h"
#include "exporter/processes/process_names.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;
using Processes = std::vector<const ProcessAllocations *>;

// The limit of call sites for one process, so that all processes have room for at least their sums.
constexpr std::size_t max_sites_bytes = max_allocations_bytes / 4 * 3;
// Room for the closing brackets.
constexpr std::size_t closing_bytes_of_sites = 1024;

// The limit is one of call sites of each process.
struct AllocationsQuery : PidAndLimit {
    bool folded = false;
    std::optional<std::string> comm;
};

Result<AllocationsQuery> read_allocations_query(const QueryParameters &parameters) {
    AllocationsQuery query;
    for (const auto &[name, value] : parameters) {
        if (name == "format") {
            if (value != "json" && value != "folded") {
                return fail("format must be json or folded, not " + in_quotes(value));
            }
            query.folded = value == "folded";
        } else if (name == "comm") {
            query.comm = value;
        } else if (const auto is_one = query.read(name, value); !is_one) {
            return tl::unexpected(is_one.error());
        } else if (!*is_one) {
            return fail(in_quotes(name) +
                        " is not a parameter of this page; it has format, pid, comm and limit");
        }
    }
    return query;
}

// The selected processes, the largest amounts first.
Processes select(const std::vector<ProcessAllocations> &all, const AllocationsQuery &query) {
    Processes selected;
    for (const ProcessAllocations &process : all) {
        if (query.has(process.pid) &&
            query.comm.value_or(process.names.comm) == process.names.comm) {
            selected.push_back(&process);
        }
    }
    std::ranges::sort(selected, [](const auto *a, const auto *b) {
        return std::pair(b->amount.bytes, a->pid) < std::pair(a->amount.bytes, b->pid);
    });
    return selected;
}

Json site_json(const SiteAllocations &site) {
    Json frames = Json::array();
    for (const symbols::Frame &frame : site.name.frames) {
        frames.push_back(frame_json(frame));
    }
    return {{"site", site.name.label.empty() ? "unknown" : site.name.label},
            {"bytes", site.amount.bytes},
            {"allocations", site.amount.count},
            {"frames", std::move(frames)}};
}

Json process_json(const ProcessAllocations &process) {
    Json json = Json::object();
    json["pid"] = process.pid;
    processes::add_names(json, process.names);
    json["uid"] = process.uid ? Json(*process.uid) : Json();
    json["slurm_step_id"] = process.slurm_step_id;
    json["systemd_unit"] = process.systemd_unit;
    json["pod_uid"] = process.pod_uid;
    json["exe"] = process.exe;
    json["complete"] = process.is_complete;
    json["outstanding_bytes"] = process.amount.bytes;
    json["outstanding_allocations"] = process.amount.count;
    return json;
}

// The text is written site by site: a JSON tree of the whole would be many times its size.
std::string allocations_text(const Processes &processes, std::uint32_t sites) {
    std::string text = R"({"processes":[)";
    std::size_t processes_written = 0;
    bool truncated = false;
    for (const ProcessAllocations *process : processes) {
        std::string begin = to_text(process_json(*process));
        begin.pop_back();
        if (text.size() + begin.size() + closing_bytes_of_sites > max_allocations_bytes) {
            break;
        }
        text += (processes_written++ == 0 ? "" : ",") + begin + R"(,"sites":[)";
        std::size_t written = 0;
        while (written < std::min<std::size_t>(sites, process->sites.size())) {
            const std::string site = to_text(site_json(process->sites[written]));
            if (text.size() + site.size() + closing_bytes_of_sites > max_sites_bytes) {
                break;
            }
            text += (written++ == 0 ? "" : ",") + site;
        }
        const std::size_t left_out = process->sites.size() - written;
        truncated = truncated || left_out > 0;
        text += R"(],"sites_left_out":)" + std::to_string(left_out) + '}';
    }
    const std::size_t left_out = processes.size() - processes_written;
    truncated = truncated || left_out > 0;
    return text + R"(],"processes_left_out":)" + std::to_string(left_out) + R"(,"truncated":)" +
           (truncated ? "true}\n" : "false}\n");
}

std::string folded_line(const std::string &comm, const SiteAllocations &site) {
    const std::vector<symbols::Frame> nothing(1);
    return symbols::folded_line(comm, site.name.frames.empty() ? nothing : site.name.frames,
                                site.amount.bytes) +
           '\n';
}

// Sites that do not fit are summed up in lines of their own, so that the total is right.
std::string folded_text(const Processes &processes, std::uint32_t sites) {
    const std::vector<symbols::Frame> left_out = {{"[left out]", "", 0}};
    std::string text;
    std::uint64_t bytes_left_out = 0;  // of whole processes
    for (const ProcessAllocations *process : processes) {
        std::uint64_t rest = process->amount.bytes;
        for (std::size_t i = 0; i < std::min<std::size_t>(sites, process->sites.size()); i++) {
            const SiteAllocations &site = process->sites[i];
            const std::string line = folded_line(process->names.comm, site);
            if (text.size() + line.size() > max_sites_bytes) {
                break;
            }
            text += line;
            rest -= std::min(rest, site.amount.bytes);
        }
        if (rest == 0) {
            continue;
        }
        const std::string line = symbols::folded_line(process->names.comm, left_out, rest) + '\n';
        if (text.size() + line.size() + closing_bytes_of_sites > max_allocations_bytes) {
            bytes_left_out += rest;
        } else {
            text += line;
        }
    }
    if (bytes_left_out > 0) {
        text += symbols::folded_line(left_out[0].function, {}, bytes_left_out) + '\n';
    }
    return text;
}

}  // namespace

ApiResource allocations_document(std::string_view name, std::vector<ProcessAllocations> all) {
    const auto shared = std::make_shared<const std::vector<ProcessAllocations>>(std::move(all));
    return {std::string(name), [shared](const QueryParameters &parameters) -> Result<ApiResponse> {
                const auto query = read_allocations_query(parameters);
                if (!query) {
                    return tl::unexpected(query.error());
                }
                const Processes processes = select(*shared, *query);
                if (query->folded) {
                    return ApiResponse{"text/plain; charset=utf-8",
                                       folded_text(processes, query->limit)};
                }
                return ApiResponse{"application/json", allocations_text(processes, query->limit)};
            }};
}

}  // namespace gpusnoop::probes

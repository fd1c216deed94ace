#include "exporter/probes/frame/allocations/allocations_api.h"

#include <nlohmann/json.hpp>

#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

ProcessAllocations allocations_of(const ProcessIdentity &process) {
    ProcessAllocations one;
    one.pid = process.key.tgid;
    one.names = process;
    one.pod_uid = process.pod_uid;
    one.exe = process.exe;
    one.uid = process.uid;
    one.slurm_step_id = process.slurm_step_id;
    one.systemd_unit = process.systemd_unit;
    return one;
}

namespace {

using Json = nlohmann::ordered_json;
using Processes = std::vector<const ProcessAllocations *>;

// Call sites fill at most this part of a page, so that all processes have room for at least their
// sums.
constexpr std::size_t max_sites_bytes = max_list_page_bytes / 4 * 3;

// The selected processes, the largest amounts first.
Processes select(const std::vector<ProcessAllocations> &all, const ListQuery &query) {
    Processes selected;
    for (const ProcessAllocations &process : all) {
        if (query.wants_process(process.pid, process.names)) {
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
    for (const symbols::Frame &frame : frames_of(site.name.stack)) {
        frames.push_back(frame_json(frame));
    }
    Json json = {{"site", site.name.label.empty() ? "unknown" : site.name.label},
                 {"bytes", site.amount.bytes},
                 {"allocations", site.amount.count}};
    if (site.error_bytes) {
        json["error_bytes"] = *site.error_bytes;
    }
    json["frames"] = std::move(frames);
    return json;
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
std::string process_text(const ProcessAllocations &process, std::uint32_t sites, std::size_t room,
                         bool &is_truncated) {
    std::string text = to_text(process_json(process));
    text.back() = ',';
    JsonList list(text, "sites", sites, room);
    for (const SiteAllocations &site : process.sites) {
        list.add([&] { return site_json(site); });
    }
    const std::size_t left_out = list.end();
    is_truncated = is_truncated || left_out > 0;
    add_left_out(text, left_out);
    return text + '}';
}

// The limit is one of call sites of each process.
ApiResponse allocations_json(const Processes &processes, std::uint32_t sites) {
    std::string text = "{";
    bool is_truncated = false;
    JsonList list(text, "processes");
    for (const ProcessAllocations *process : processes) {
        list.add([&] {
            const std::size_t room = max_sites_bytes - std::min(max_sites_bytes, text.size());
            return process_text(*process, sites, room, is_truncated);
        });
    }
    const std::size_t left_out = list.end();
    return end_page(std::move(text), left_out, is_truncated);
}

std::string folded_line(const std::string &comm, const SiteAllocations &site) {
    std::vector<symbols::Frame> frames = frames_of(site.name.stack);
    frames.resize(std::max<std::size_t>(frames.size(), 1));
    return symbols::folded_line(comm, frames, site.amount.bytes) + '\n';
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
        if (text.size() + line.size() + JsonList::closing_bytes > max_list_page_bytes) {
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

ApiResponse write_allocations(const std::vector<ProcessAllocations> &all, const ListQuery &query) {
    const Processes processes = select(all, query);
    if (query.choice("format") == "folded") {
        return {"text/plain; charset=utf-8", folded_text(processes, query.limit())};
    }
    return allocations_json(processes, query.limit());
}

}  // namespace

ApiPage allocations_page(std::string_view name, std::vector<ProcessAllocations> all) {
    return list_page(
        name, process_parameters({{"format", PageParameter::Type::choice, {"json", "folded"}}}),
        std::move(all), write_allocations);
}

}  // namespace gpusnoop::probes

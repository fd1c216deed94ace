#include "exporter/status/facts.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "exporter/ebpf/maps/counters.h"

namespace gpusnoop::status {

namespace {

std::map<std::string, std::uint64_t> lost_by_reason(const probes::Health &probe) {
    std::map<std::string, std::uint64_t> lost;
    for (std::size_t reason = 0; reason < ebpf::lost_reason_names.size(); reason++) {
        if (probe.account.lost[reason] > 0) {
            lost[std::string(ebpf::lost_reason_names.at(reason))] = probe.account.lost[reason];
        }
    }
    if (probe.undecodable > 0) {
        lost["undecodable"] = probe.undecodable;
    }
    if (probe.runs.skipped > 0) {
        lost["skipped"] = probe.runs.skipped;
    }
    if (probe.forgotten > 0) {
        lost["forgotten"] = probe.forgotten;
    }
    return lost;
}

using ByFile = std::map<FileId, LibraryFacts>;

void add_attached(const std::vector<probes::Health> &probes, ByFile &files) {
    for (const probes::Health &probe : probes) {
        for (const probes::AttachedLibrary &library : probe.libraries) {
            LibraryFacts &file = files[library.id];
            if (file.path.empty()) {
                file.path = library.name;  // until discovery knows the path
            }
            file.build = library.build;
            file.attached[probe.name] = library.functions;
            if (library.expensive > 0) {
                file.expensive[probe.name] = library.expensive;
            }
        }
    }
}

}  // namespace

std::vector<ProbeFacts> probe_facts(const std::vector<probes::Health> &probes,
                                    const CurrentRates &rates) {
    std::vector<ProbeFacts> facts;
    for (const probes::Health &probe : probes) {
        const auto rate = rates.probes.find(probe.name);
        facts.push_back({.name = probe.name,
                         .state = probe.state,
                         .detail = probe.detail,
                         .functions = probe.attached_functions,
                         .libraries = probe.libraries.size(),
                         .attach_failures = probe.attach_failures,
                         .events = probe.account.events,
                         .lost = lost_by_reason(probe),
                         .rate = rate == rates.probes.end() ? Rate{} : rate->second});
    }
    return facts;
}

std::vector<LibraryFacts> library_facts(
    const std::vector<discovery::FoundLibrary> &found, const std::vector<probes::Health> &probes,
    const std::map<const discovery::Attacher *, std::string> &names) {
    ByFile files;
    add_attached(probes, files);
    for (const discovery::FoundLibrary &library : found) {
        const bool is_attached = files.contains(library.id);
        if (library.is_program && !is_attached && library.problems.empty()) {
            continue;
        }
        LibraryFacts &file = files[library.id];
        file.path = library.path.empty() ? library.name : library.path;
        file.processes = library.processes;
        for (const auto &[attacher, problem] : library.problems) {
            const auto name = names.find(attacher);
            file.problems[name == names.end() ? "" : name->second] = problem;
        }
    }
    std::vector<LibraryFacts> all;
    for (auto &[id, file] : files) {
        all.push_back(std::move(file));
    }
    // Files with problems come first, because the end of the list is cut off.
    std::ranges::sort(all, [](const LibraryFacts &a, const LibraryFacts &b) {
        return std::tuple(a.problems.empty(), b.processes, std::string_view(a.path)) <
               std::tuple(b.problems.empty(), a.processes, std::string_view(b.path));
    });
    return all;
}

}  // namespace gpusnoop::status

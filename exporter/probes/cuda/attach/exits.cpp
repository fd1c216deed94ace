#include "exporter/probes/cuda/attach/exits.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "bpf/cuda/functions.h"
#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/symbols/exits/function_exits.h"

namespace gpusnoop::probes {

namespace {

// By the file offset of the entry.
using Functions = std::map<std::uint64_t, symbols::FunctionExits>;

bool is_return(const symbols::FunctionExit &exit) {
    return exit.kind == symbols::ExitKind::return_;
}

// Is the result of each call seen, at an exit of this function or of one that it jumps to?
bool is_seen(std::uint64_t entry, const symbols::FunctionExits &function, const Functions &all) {
    return !function.exits.empty() &&
           std::ranges::all_of(function.exits, [&](const symbols::FunctionExit &exit) {
               // The order of two probes at one address is unknown.
               return is_return(exit) ? exit.address != entry : all.contains(exit.target);
           });
}

void leave_out_unseen(Functions &functions) {
    // A function that jumps to a removed one is removed in the next round.
    while (std::erase_if(functions, [&](const auto &entry) {
               return !is_seen(entry.first, entry.second, functions);
           }) > 0) {
    }
}

void say_left_out(const discovery::Library &library, const std::vector<std::string_view> &names) {
    if (names.empty()) {
        return;
    }
    std::string list;
    for (const std::string_view name : names) {
        list += (list.empty() ? "" : " ") + std::string(name);
    }
    log::warn(
        "the ends of these functions cannot be seen without a return probe: of their calls only "
        "those of other traced functions inside them are counted",
        {{"probe", "cuda"},
         {"library", to_valid_utf8(library.name, max_label_bytes)},
         {"functions", list}});
}

}  // namespace

std::vector<ebpf::AttachPoint> see_ends_at_exits(const symbols::ElfFile &elf,
                                                 const discovery::Library &library,
                                                 std::span<const symbols::FoundFunction> found,
                                                 std::vector<ebpf::AttachPoint> &points) {
    std::map<std::uint64_t, ebpf::AttachPoint> by_entry;
    for (const ebpf::AttachPoint &point : points) {
        by_entry.emplace(point.file_offset, point);
    }
    std::vector<symbols::FoundFunction> wanted;
    for (const symbols::FoundFunction &function : found) {
        const auto point = by_entry.find(function.file_offset);
        if (point != by_entry.end() && !point->second.entry_only &&
            std::ranges::find(wanted, function.file_offset, &symbols::FoundFunction::file_offset) ==
                wanted.end()) {
            wanted.push_back(function);
        }
    }
    const auto answers = symbols::find_exits(elf, library.readable(), wanted);
    Functions functions;
    for (std::size_t i = 0; i < wanted.size(); i++) {
        if (answers[i]) {
            functions.emplace(wanted[i].file_offset, *answers[i]);
        }
    }
    leave_out_unseen(functions);

    std::vector<std::string_view> left_out;
    for (const symbols::FoundFunction &function : wanted) {
        if (!functions.contains(function.file_offset)) {
            left_out.push_back(cuda_functions()[function.name].symbol);
        }
    }
    say_left_out(library, left_out);

    std::vector<ebpf::AttachPoint> exits;
    std::erase_if(points, [&](ebpf::AttachPoint &point) {
        if (point.entry_only) {
            return false;
        }
        const auto function = functions.find(point.file_offset);
        if (function == functions.end() ||
            std::ranges::none_of(function->second.exits, is_return)) {
            return true;
        }
        point.cookie |= CUDA_EXITS;
        point.entry_only = true;  // no return probe
        for (const symbols::FunctionExit &exit : function->second.exits) {
            if (is_return(exit)) {
                exits.push_back({exit.address, point.cookie});
            }
        }
        return false;
    });
    return exits;
}

std::set<std::uint64_t> forwarding_functions(const symbols::ElfFile &elf,
                                             const discovery::Library &library,
                                             std::span<const symbols::FoundFunction> found) {
    const auto name_of = [](const symbols::FoundFunction &function) {
        return cuda_functions()[function.name].name;
    };
    const auto targets = symbols::find_forwarders(elf, library.readable(), found);
    std::set<std::uint64_t> forwarding;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const bool has_other =
            targets[i] && std::ranges::any_of(found, [&](const symbols::FoundFunction &other) {
                return other.file_offset == *targets[i] && other.probeable &&
                       name_of(other) == name_of(found[i]);
            });
        if (has_other) {
            forwarding.insert(found[i].file_offset);
        }
    }
    return forwarding;
}

}  // namespace gpusnoop::probes

#include "exporter/symbols/stacks/stack_namer.h"

#include <algorithm>
#include <utility>

#include "exporter/base/text.h"
#include "exporter/processes/open_mapped.h"
#include "exporter/symbols/demangle/function_name.h"
#include "exporter/symbols/elf/debug_file.h"
#include "exporter/symbols/stacks/process_memory.h"

namespace gpusnoop::symbols {
namespace {

constexpr std::size_t max_module_bytes = 128;

// The most ways to open one file: of the processes that map it, some may have ended.
constexpr std::size_t max_open_attempts = 3;

}  // namespace

StackNamer::StackNamer(std::unique_ptr<MappedFiles> files, FileCache::Settings settings)
    : files_(std::move(files)), cache_(function_name, std::move(settings)) {}

std::optional<FileCache::Clock::time_point> StackNamer::close_unused() {
    cache_.close_unused();
    const auto next = cache_.next_close();
    if (!next) {
        files_->rest();
    }
    return next;
}

StackReply StackNamer::unresolved(std::uint64_t ticket, std::size_t addresses) {
    return {ticket, std::vector<Frame>(std::min(addresses, max_frames))};
}

std::vector<StackReply> StackNamer::name(std::span<const StackRequest> requests) {
    std::map<std::uint32_t, Process> processes;
    std::map<FileId, File> files;
    std::vector<std::vector<Place>> places(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const StackRequest &request = requests[i];
        auto known = processes.find(request.tgid);
        if (known == processes.end()) {
            known = processes.emplace(request.tgid, read_process(request.tgid)).first;
        }
        const Process &process = known->second;
        if (request.code_start != 0 && process.code_start != request.code_start) {
            continue;
        }
        for (std::size_t at = 0; at < std::min(request.addresses.size(), max_frames); ++at) {
            // A call can be the last instruction of its function: then its return address is in
            // the next one.
            const std::uint64_t call = request.addresses[at] - 1;
            const ebpf::Mapping *mapping = mapping_at(process, call);
            if (mapping == nullptr) {
                continue;
            }
            File &file = files[mapping->file];
            if (file.mappings.empty() || file.mappings.back()->tgid != request.tgid) {
                file.mappings.push_back(mapping);
            }
            places[i].push_back({at, mapping, &file, file.offsets.size()});
            file.offsets.push_back(call - mapping->start + mapping->file_offset);
        }
    }
    for (auto &[id, file] : files) {
        look_up(id, file);
    }
    std::vector<StackReply> answers;
    answers.reserve(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
        StackReply &answer =
            answers.emplace_back(unresolved(requests[i].ticket, requests[i].addresses.size()));
        for (const Place &place : places[i]) {
            answer.frames[place.address] = frame_of(place, requests[i].addresses[place.address]);
        }
    }
    return answers;
}

StackNamer::Process StackNamer::read_process(std::uint32_t tgid) {
    Process process;
    if (auto mappings = files_->list(tgid); mappings && !mappings->empty()) {
        process.mappings = std::move(*mappings);
        std::ranges::sort(process.mappings, {}, &ebpf::Mapping::start);
        // Read last: if the program is still the same now, it was the same when its mappings were
        // read.
        process.code_start = code_start_of(process.mappings.front().tid);
    }
    return process;
}

const ebpf::Mapping *StackNamer::mapping_at(const Process &process, std::uint64_t address) {
    const auto after =
        std::ranges::upper_bound(process.mappings, address, {}, &ebpf::Mapping::start);
    if (after == process.mappings.begin() || address >= std::prev(after)->end) {
        return nullptr;
    }
    return &*std::prev(after);
}

void StackNamer::add_debug_file(CachedFile &file, const ebpf::Mapping &mapping) {
    if (file.elf() == nullptr || file.elf()->has_symtab()) {
        return;
    }
    const auto path = processes::mapped_path(mapping);
    file.elf()->use_debug_file(
        find_debug_file(*file.elf(), {mapping.tid, path.value_or(""), file.local_fd()}));
}

void StackNamer::look_up(const FileId &id, File &file) {
    CachedFile *open = cache_.find(id);
    for (std::size_t i = 0;
         open == nullptr && i < std::min(file.mappings.size(), max_open_attempts); ++i) {
        if (auto fd = files_->open_file(*file.mappings[i])) {
            open = &cache_.keep(id, std::move(*fd));
            add_debug_file(*open, *file.mappings[i]);
        }
    }
    file.functions = open != nullptr ? cache_.functions_at(*open, file.offsets)
                                     : std::vector<FunctionAt>(file.offsets.size());
}

Frame StackNamer::frame_of(const Place &place, std::uint64_t address) {
    const FunctionAt &function = place.file->functions[place.offset];
    Frame frame{function.name, to_valid_utf8(place.mapping->name, max_module_bytes), 0};
    frame.offset = function.name.empty()
                       ? address - place.mapping->start + place.mapping->file_offset
                       : function.offset + 1;  // of the return address
    return frame;
}

}  // namespace gpusnoop::symbols

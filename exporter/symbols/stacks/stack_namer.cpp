#include "exporter/symbols/stacks/stack_namer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/symbols/demangle/function_name.h"
#include "exporter/symbols/elf/debug_file.h"
#include "exporter/symbols/stacks/patient_reader.h"
#include "exporter/symbols/stacks/perf_map.h"

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
    std::erase_if(maps_wait_,
                  [now = FileCache::Clock::now()](const auto &map) { return map.second <= now; });
    const auto next = cache_.next_close();
    if (!next) {
        files_->rest();
    }
    return next;
}

StackReply StackNamer::unresolved(std::uint64_t ticket, std::size_t addresses) {
    return {ticket, std::vector<Frame>(std::min(addresses, max_frames))};
}

std::vector<StackReply> StackNamer::name(std::span<const StackRequest> requests,
                                         const WorkLimit &limit) {
    files_->set_limit(limit);
    std::map<std::uint32_t, Process> processes;
    std::map<FileId, File> files;
    std::vector<std::vector<Place>> places(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const StackRequest &request = requests[i];
        auto known = processes.find(request.tgid);
        if (known == processes.end() && limit.is_reached()) {
            continue;
        }
        if (known == processes.end()) {
            known = processes.emplace(request.tgid, read_process(request.tgid)).first;
        }
        const Process &process = known->second;
        if (request.code_start != 0 && process.code_start != request.code_start) {
            continue;
        }
        for (std::size_t at = 0; at < std::min(request.addresses.size(), max_frames); ++at) {
            const std::uint64_t code = request.code_at(at);
            const ebpf::Mapping *mapping = mapping_at(process, code);
            if (mapping == nullptr) {
                continue;
            }
            File &file = files[mapping->file];
            if (file.mappings.empty() || file.mappings.back()->tgid != request.tgid) {
                file.mappings.push_back(mapping);
            }
            places[i].push_back({at, mapping, &file, file.offsets.size()});
            file.offsets.push_back(code - mapping->start + mapping->file_offset);
        }
    }
    for (auto &[id, file] : files) {
        look_up(id, file, limit);
    }
    std::vector<StackReply> answers;
    answers.reserve(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
        StackReply &answer =
            answers.emplace_back(unresolved(requests[i].ticket, requests[i].addresses.size()));
        answer.places.resize(requests[i].is_thorough ? answer.frames.size() : 0);
        for (const Place &place : places[i]) {
            answer.frames[place.address] = frame_of(place, requests[i]);
            if (requests[i].is_thorough) {
                answer.places[place.address] = place_of(place);
            }
        }
    }
    name_made_code(requests, answers, limit);
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

void StackNamer::add_debug_file(CachedFile &file, const ebpf::Mapping &mapping,
                                const WorkLimit &limit) {
    if (file.elf() == nullptr || file.elf()->has_symtab()) {
        return;
    }
    const auto path = files_->path_of(mapping);
    file.elf()->use_debug_file(
        find_debug_file(*file.elf(), {mapping.tid, path.value_or(""), file.local_fd()}, limit));
}

void StackNamer::look_up(const FileId &id, File &file, const WorkLimit &limit) {
    if (limit.is_reached()) {
        file.functions.resize(file.offsets.size());
        return;
    }
    CachedFile *open = cache_.find(id);
    for (std::size_t i = 0;
         open == nullptr && i < std::min(file.mappings.size(), max_open_attempts); ++i) {
        if (auto fd = files_->open_file(*file.mappings[i])) {
            open = &cache_.keep(id, std::move(*fd));
            add_debug_file(*open, *file.mappings[i], limit);
        }
    }
    file.build_id = open != nullptr ? open->build_id() : "";
    file.functions = open != nullptr ? cache_.functions_at(*open, file.offsets)
                                     : std::vector<FunctionAt>(file.offsets.size());
}

CodePlace StackNamer::place_of(const Place &place) {
    const ebpf::Mapping &mapping = *place.mapping;
    auto &segment = place.file->segments[mapping.file_offset];
    if (!segment) {
        segment = std::make_shared<const CodeSegment>(
            CodeSegment{.file = to_valid_utf8(mapping.name, max_module_bytes),
                        .build_id = place.file->build_id,
                        .offset = mapping.file_offset,
                        .bytes = mapping.end - mapping.start});
    }
    return {.segment = segment, .offset = place.file->offsets[place.offset]};
}

// What is in no file.
void StackNamer::name_made_code(std::span<const StackRequest> requests,
                                std::vector<StackReply> &replies, const WorkLimit &limit) {
    std::map<std::uint32_t, std::vector<std::uint64_t>> asked;  // by process
    const auto for_each = [&](const auto &use) {
        for (std::size_t i = 0; i < requests.size(); ++i) {
            for (std::size_t at = 0; at < replies[i].places.size(); ++at) {
                if (!replies[i].places[at].segment) {
                    use(requests[i], at, replies[i].frames[at]);
                }
            }
        }
    };
    for_each([&](const StackRequest &request, std::size_t at, const Frame & /*frame*/) {
        asked[request.tgid].push_back(request.code_at(at));
    });
    std::map<std::uint32_t, std::map<std::uint64_t, FunctionAt>> found;
    for (const auto &[tgid, calls] : asked) {
        const auto began = FileCache::Clock::now();
        auto &wait = maps_wait_[tgid];
        if (began < wait || limit.is_reached()) {
            continue;
        }
        if (const auto map = files_->copy_text(tgid, perf_map_path(tgid))) {
            found[tgid] = functions_in_perf_map(map->get(), calls, limit);
        }
        // A large map must not take all of the time.
        const auto ended = FileCache::Clock::now();
        wait = ended + 10 * (ended - began);
    }
    for_each([&](const StackRequest &request, std::size_t at, Frame &frame) {
        const std::uint64_t code = request.code_at(at);
        const FunctionAt &function = found[request.tgid][code];
        if (!function.name.empty()) {
            frame = {.function = function.name,
                     .module = "[made at run time]",
                     .offset = function.offset + request.addresses[at] - code};
        }
    });
}

Frame StackNamer::frame_of(const Place &place, const StackRequest &request) {
    const FunctionAt &function = place.file->functions[place.offset];
    const std::uint64_t address = request.addresses[place.address];
    Frame frame{function.name, to_valid_utf8(place.mapping->name, max_module_bytes), 0};
    frame.offset = function.name.empty()
                       ? address - place.mapping->start + place.mapping->file_offset
                       : function.offset + address - request.code_at(place.address);
    return frame;
}

namespace {

// Few enough to stop soon, many enough to read a file's symbols once for many stacks.
constexpr std::size_t max_batch = 256;
// The libraries of one process may be many and large. What is not named then has no names.
constexpr std::chrono::seconds longest_turn{5};

}  // namespace

Result<std::unique_ptr<StackResolver>> StackResolver::start() {
    auto files = MappedFiles::open();
    if (!files) {
        return tl::unexpected(files.error());
    }
    return std::make_unique<StackResolver>(std::move(*files));
}

StackResolver::StackResolver(std::unique_ptr<MappedFiles> files, FileCache::Settings settings)
    : namer_(std::move(files), std::move(settings)),
      thread_(
          {.max_waiting = max_waiting, .max_batch = max_batch, .longest_turn = longest_turn},
          [this](const std::vector<StackRequest> &batch, const WorkLimit &limit, const auto &post) {
              for (StackReply &answer : namer_.name(batch, limit)) {
                  post(std::move(answer));
              }
              return batch.size();
          },
          [this] { return namer_.close_unused(); }) {}

void StackResolver::ask(StackRequest request) {
    const std::uint32_t tgid = request.tgid;
    if (const auto refused = thread_.ask(tgid, std::move(request))) {
        thread_.post(StackNamer::unresolved(refused->ticket, refused->addresses.size()));
    }
}

std::vector<StackReply> StackResolver::answers() {
    return thread_.answers();
}

}  // namespace gpusnoop::symbols

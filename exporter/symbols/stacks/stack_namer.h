// Finds the functions on the stacks of processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/symbols/stacks/background_resolver.h"
#include "exporter/symbols/stacks/file_cache.h"
#include "exporter/symbols/stacks/mapped_files.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::symbols {

// Where the code of a frame lies in its file, for programs that look for names and lines
// themselves.

// A part of a file that processes have mapped to execute it.
struct CodeSegment {
    std::string file;      // the last part of its path, valid UTF-8
    std::string build_id;  // hexadecimal; empty: it has none
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

struct CodePlace {
    std::shared_ptr<const CodeSegment> segment;  // null: in no file
    std::uint64_t offset = 0;                    // of the call, in the file
};

struct StackRequest {
    std::uint64_t ticket = 0;  // returned with the answer
    std::uint32_t tgid = 0;
    // Return addresses, innermost first; the first can be the instruction that the thread is at.
    std::vector<std::uint64_t> addresses;
    // Where the code of the process's executable begins (mm->start_code). With it, the stack is not
    // looked up in another program that has reused the process id; 0 if it is not known.
    std::uint64_t code_start = 0;
    // Also the places, and the names of code that the program has made (perf_map.h).
    bool is_thorough = false;
    bool begins_at_instruction = false;

    // What is looked up. A call can be the last instruction of its function: then its return
    // address is in the next one.
    [[nodiscard]] std::uint64_t code_at(std::size_t frame) const {
        return addresses[frame] - (frame == 0 && begins_at_instruction ? 0 : 1);
    }
};

struct StackReply {
    std::uint64_t ticket = 0;
    std::vector<Frame> frames;        // one for each address, of at most StackNamer::max_frames
    std::vector<CodePlace> places{};  // of these frames, for a request that is thorough
    std::string label{};              // of the stack, if somebody has chosen one
};

// Reads files, so it is slow. Used by one thread.
class StackNamer {
public:
    // The kernel's limit (kernel.perf_event_max_stack). Frames further out are dropped.
    static constexpr std::size_t max_frames = 128;

    explicit StackNamer(std::unique_ptr<MappedFiles> files, FileCache::Settings settings = {});

    // An answer for each request. The mappings of each process are read once, and the symbols of
    // each file at most once. What is not read within the limit has no names.
    [[nodiscard]] std::vector<StackReply> name(std::span<const StackRequest> requests,
                                               const WorkLimit &limit = {});
    // For the same thread, between its calls.
    [[nodiscard]] MappedFiles &files() { return *files_; }
    // Closes files that were not used for a while; returns the time of the next call.
    std::optional<FileCache::Clock::time_point> close_unused();

    // The answer that needs no look-up.
    [[nodiscard]] static StackReply unresolved(std::uint64_t ticket, std::size_t addresses);

private:
    struct Process {
        std::vector<ebpf::Mapping> mappings;      // by address
        std::optional<std::uint64_t> code_start;  // empty if it cannot be known
    };
    // The offsets requested for one file in a batch.
    struct File {
        std::vector<const ebpf::Mapping *> mappings;  // to open it through
        std::vector<std::uint64_t> offsets;
        std::vector<FunctionAt> functions;  // one for each offset
        std::string build_id;
        std::map<std::uint64_t, std::shared_ptr<const CodeSegment>> segments;  // by their offset
    };
    // The place of one address: its file, and the index of its offset there.
    struct Place {
        std::size_t address;  // index
        const ebpf::Mapping *mapping;
        File *file;
        std::size_t offset;  // index
    };

    Process read_process(std::uint32_t tgid);
    static const ebpf::Mapping *mapping_at(const Process &process, std::uint64_t address);
    static Frame frame_of(const Place &place, const StackRequest &request);
    void add_debug_file(CachedFile &file, const ebpf::Mapping &mapping, const WorkLimit &limit);
    static CodePlace place_of(const Place &place);
    void look_up(const FileId &id, File &file, const WorkLimit &limit);
    void name_made_code(std::span<const StackRequest> requests, std::vector<StackReply> &replies,
                        const WorkLimit &limit);

    std::unique_ptr<MappedFiles> files_;
    FileCache cache_;
    // When the map of a process's made code may be read again.
    std::map<std::uint32_t, FileCache::Clock::time_point> maps_wait_;
};

// Names the stacks that allocations were made from, on its own thread, off the hot path.

class StackResolver {
public:
    // The limit of waiting requests. Over it, requests are answered immediately, with unresolved
    // frames.
    static constexpr std::size_t max_waiting = 4096;

    static Result<std::unique_ptr<StackResolver>> start();
    explicit StackResolver(std::unique_ptr<MappedFiles> files, FileCache::Settings settings = {});
    StackResolver(const StackResolver &) = delete;
    StackResolver &operator=(const StackResolver &) = delete;

    // Never blocks.
    void ask(StackRequest request);
    // The answers that are ready: one for each request, in any order.
    std::vector<StackReply> answers();

private:
    StackNamer namer_;  // used by the thread only
    BackgroundResolver<StackRequest, StackReply> thread_;
};

}  // namespace gpusnoop::symbols

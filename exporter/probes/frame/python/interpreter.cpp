#include "exporter/probes/frame/python/interpreter.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

namespace {

// A process may map any number of files with such a name.
constexpr std::chrono::seconds longest_look{1};
constexpr std::size_t max_files = 32;

// FRAME_OWNED_BY_CSTACK from 3.12 on, FRAME_OWNED_BY_INTERPRETER in 3.14.
constexpr std::uint32_t owned_by_no_function = 3;

// offsetof() in the headers of CPython 3.10, 3.11 and 3.12, which did not change within these.
constexpr PythonInterpreter python_3_10 = {.frames = {.runtime = 0,
                                                      .interpreters = 32,
                                                      .interpreter_next = 0,
                                                      .interpreter_threads = 8,
                                                      .thread_next = 8,
                                                      .thread_id = 0,
                                                      .thread_frame = 24,
                                                      .c_frame = 0,
                                                      .frame_code = 32,
                                                      .frame_previous = 24,
                                                      .frame_owner = 0,
                                                      .owner_shim = 0,
                                                      .frame_is_entry = 0},
                                           .code = {.file_name = 104,
                                                    .qualified_name = 112,  // it has only the name
                                                    .ascii_text = 48,
                                                    .unicode_text = 72,
                                                    .first_line = 40,
                                                    .line_table = 120,
                                                    .instructions = 0,
                                                    .lines = PythonLineTable::deltas,
                                                    .has_version = false},
                                           .thread_handle = 176,
                                           .frame_instruction = 96,
                                           .has_loop_for_each = true,
                                           .is_for_kernel = false};
constexpr PythonInterpreter python_3_11 = {.frames = {.runtime = 0,
                                                      .interpreters = 40,
                                                      .interpreter_next = 0,
                                                      .interpreter_threads = 16,
                                                      .thread_next = 8,
                                                      .thread_id = 160,
                                                      .thread_frame = 56,
                                                      .c_frame = 8 + 1,
                                                      .frame_code = 32,
                                                      .frame_previous = 48,
                                                      .frame_owner = 69,
                                                      .owner_shim = 0,
                                                      .frame_is_entry = 68},
                                           .code = {.file_name = 112,
                                                    .qualified_name = 128,
                                                    .ascii_text = 48,
                                                    .unicode_text = 72,
                                                    .first_line = 72,
                                                    .line_table = 136,
                                                    .instructions = 184,
                                                    .lines = PythonLineTable::locations,
                                                    .has_version = false},
                                           .thread_handle = 152,
                                           .frame_instruction = 56,
                                           .has_loop_for_each = false,
                                           .is_for_kernel = true};
constexpr PythonInterpreter python_3_12 = {.frames = {.runtime = 0,
                                                      .interpreters = 40,
                                                      .interpreter_next = 0,
                                                      .interpreter_threads = 72,
                                                      .thread_next = 8,
                                                      .thread_id = 144,
                                                      .thread_frame = 56,
                                                      .c_frame = 0 + 1,
                                                      .frame_code = 0,
                                                      .frame_previous = 8,
                                                      .frame_owner = 70,
                                                      .owner_shim = owned_by_no_function,
                                                      .frame_is_entry = 0},
                                           .code = {.file_name = 112,
                                                    .qualified_name = 128,
                                                    .ascii_text = 40,
                                                    .unicode_text = 56,
                                                    .first_line = 68,
                                                    .line_table = 136,
                                                    .instructions = 192,
                                                    .lines = PythonLineTable::locations,
                                                    .has_version = true},
                                           .thread_handle = 136,
                                           .frame_instruction = 56,
                                           .has_loop_for_each = false,
                                           .is_for_kernel = true};

// Where parts of struct _Py_DebugOffsets begin, in words.
struct OffsetPlaces {
    std::size_t thread;  // thread_state
    std::size_t frame;   // interpreter_frame
    std::size_t code;    // code_object
};
constexpr OffsetPlaces places_3_13 = {.thread = 19, .frame = 28, .code = 34};
constexpr OffsetPlaces places_3_14 = {.thread = 22, .frame = 31, .code = 39};

std::uint64_t word_at(std::string_view bytes, std::size_t index) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + index * sizeof(word), sizeof(word));
    return word;
}

std::uint64_t version_without_release(std::uint64_t version) {
    return version >> 16U;
}

// An address of the file as linked, in the process.
std::optional<std::uint64_t> address_of(const symbols::ElfFile &elf, const ebpf::Mapping &mapping,
                                        std::string_view name) {
    const auto found = elf.find_by_suffix(name);
    const auto linked_at = elf.to_vaddr(mapping.file_offset);
    if (!found || !linked_at) {
        return std::nullopt;
    }
    const auto symbol = std::ranges::find(*found, name, [](const auto &one) { return one.name; });
    return symbol == found->end() ? std::nullopt
                                  : std::optional(symbol->vaddr - *linked_at + mapping.start);
}

std::optional<PythonInterpreter> python_of_version(symbols::MappedFiles &files, std::uint32_t tgid,
                                                   std::uint64_t version_at,
                                                   std::uint64_t runtime) {
    const auto version = files.read_memory(tgid, version_at, sizeof(std::uint64_t));
    if (!version || version->size() < sizeof(std::uint64_t)) {
        return std::nullopt;
    }
    if (const auto python = python_by_version(word_at(*version, 0))) {
        return python;
    }
    const auto offsets = files.read_memory(tgid, runtime, python_offsets_bytes);
    return offsets ? python_by_offsets(*offsets) : std::nullopt;
}

std::optional<PythonInterpreter> python_in(symbols::MappedFiles &files,
                                           const ebpf::Mapping &mapping, const WorkLimit &limit) {
    const auto file = files.open_file(mapping);
    if (!file) {
        return std::nullopt;
    }
    // Each of two symbols is looked up within this time.
    const auto elf = symbols::ElfFile::open(file->readable(), {.deadline = limit.left() / 2});
    if (!elf) {
        return std::nullopt;
    }
    const auto runtime = address_of(*elf, mapping, "_PyRuntime");
    if (!runtime) {
        return std::nullopt;  // it is no interpreter
    }
    const auto version_at = address_of(*elf, mapping, "Py_Version");
    auto python = version_at ? python_of_version(files, mapping.tgid, *version_at, *runtime)
                             : python_by_name(mapping.name);
    if (python) {
        python->frames.runtime = *runtime;
    }
    return python;
}

}  // namespace

std::optional<PythonInterpreter> python_by_version(std::uint64_t version) {
    switch (version_without_release(version)) {
        case 0x030b:
            return python_3_11;
        case 0x030c:
            return python_3_12;
        default:
            return std::nullopt;
    }
}

std::optional<PythonInterpreter> python_by_name(std::string_view file_name) {
    return file_name.find("python3.10") == file_name.npos ? std::nullopt
                                                          : std::optional(python_3_10);
}

std::optional<PythonInterpreter> python_by_offsets(std::string_view debug_offsets) {
    constexpr std::size_t version = 1;
    constexpr std::size_t free_threaded = 2;
    if (debug_offsets.size() < python_offsets_bytes || !debug_offsets.starts_with("xdebugpy") ||
        word_at(debug_offsets, free_threaded) != 0) {
        return std::nullopt;
    }
    const std::uint64_t of = version_without_release(word_at(debug_offsets, version));
    if (of != 0x030d && of != 0x030e) {
        return std::nullopt;
    }
    const OffsetPlaces &places = of == 0x030d ? places_3_13 : places_3_14;
    // An offset that is none is of a process that means to confuse: its own stacks are wrong then.
    const auto at = [&](std::size_t place) {
        return static_cast<std::uint32_t>(word_at(debug_offsets, place));
    };
    return PythonInterpreter{.frames = {.runtime = 0,
                                        .interpreters = at(5),
                                        .interpreter_next = at(8),
                                        .interpreter_threads = at(9),
                                        .thread_next = at(places.thread + 2),
                                        .thread_id = at(places.thread + 6),
                                        .thread_frame = at(places.thread + 4),
                                        .c_frame = 0,
                                        .frame_code = at(places.frame + 2),
                                        .frame_previous = at(places.frame + 1),
                                        .frame_owner = at(places.frame + 5),
                                        .owner_shim = owned_by_no_function,
                                        .frame_is_entry = 0},
                             .code = {.file_name = at(places.code + 1),
                                      .qualified_name = at(places.code + 3),
                                      .ascii_text = 40,
                                      .unicode_text = 56,
                                      .first_line = at(places.code + 5),
                                      .line_table = at(places.code + 4),
                                      .instructions = at(places.code + 9),
                                      .lines = PythonLineTable::locations,
                                      .has_version = true},
                             .thread_handle = at(places.thread + 5),
                             .frame_instruction = at(places.frame + 3),
                             .has_loop_for_each = false,
                             .is_for_kernel = true};
}

std::optional<PythonInterpreter> find_python(symbols::MappedFiles &files, std::uint32_t tgid,
                                             const WorkLimit &most) {
    const WorkLimit limit = most.at_most(longest_look);
    files.set_limit(limit);
    auto mappings = files.list(tgid);
    if (!mappings) {
        return std::nullopt;
    }
    std::erase_if(*mappings,
                  [](const auto &one) { return one.name.find("python") == one.name.npos; });
    // Before modules such as _C.cpython-311-x86_64-linux-gnu.so, of which there may be hundreds.
    std::ranges::stable_partition(*mappings, [](const ebpf::Mapping &mapping) {
        return mapping.name.starts_with("python") || mapping.name.starts_with("libpython");
    });
    std::vector<FileId> seen;
    for (const ebpf::Mapping &mapping : *mappings) {
        if (limit.is_reached() || seen.size() >= max_files) {
            break;
        }
        if (std::ranges::find(seen, mapping.file) != seen.end()) {
            continue;
        }
        seen.push_back(mapping.file);
        if (auto python = python_in(files, mapping, limit)) {
            return python;
        }
    }
    return std::nullopt;
}

}  // namespace gpusnoop::probes

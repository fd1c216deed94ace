#include "exporter/probes/profile/python/interpreter.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/work_limit.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

namespace {

// A process may map any number of files with such a name.
constexpr std::chrono::seconds longest_look{1};
constexpr std::size_t max_files = 32;

constexpr std::uint32_t owned_by_c_stack = 3;  // FRAME_OWNED_BY_CSTACK, from 3.12 on

// offsetof() in the headers of CPython 3.11 and 3.12, which did not change within these.
constexpr PythonInterpreter python_3_11 = {
    .frames = {.runtime = 0,
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
    .code = {.file_name = 112, .qualified_name = 128, .ascii_text = 48, .unicode_text = 72}};
constexpr PythonInterpreter python_3_12 = {
    .frames = {.runtime = 0,
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
               .owner_shim = owned_by_c_stack,
               .frame_is_entry = 0},
    .code = {.file_name = 112, .qualified_name = 128, .ascii_text = 40, .unicode_text = 56}};

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
    const auto version_at = address_of(*elf, mapping, "Py_Version");
    if (!runtime || !version_at) {
        return std::nullopt;  // before 3.11, or it is no interpreter
    }
    const auto version = files.read_memory(mapping.tgid, *version_at, sizeof(std::uint64_t));
    if (!version || version->size() < sizeof(std::uint64_t)) {
        return std::nullopt;
    }
    auto python = python_by_version(word_at(*version, 0));
    if (!python) {
        const auto offsets = files.read_memory(mapping.tgid, *runtime, python_offsets_bytes);
        python = offsets ? python_by_offsets(*offsets) : std::nullopt;
    }
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

std::optional<PythonInterpreter> python_by_offsets(std::string_view debug_offsets) {
    constexpr std::size_t version = 1;
    constexpr std::size_t free_threaded = 2;
    if (debug_offsets.size() < python_offsets_bytes || !debug_offsets.starts_with("xdebugpy") ||
        version_without_release(word_at(debug_offsets, version)) != 0x030d ||
        word_at(debug_offsets, free_threaded) != 0) {
        return std::nullopt;
    }
    // By their places in the structure. An offset that is none is of a process that means to
    // confuse: its own stacks are wrong then.
    const auto at = [&](std::size_t place) {
        return static_cast<std::uint32_t>(word_at(debug_offsets, place));
    };
    return PythonInterpreter{
        .frames = {.runtime = 0,
                   .interpreters = at(5),
                   .interpreter_next = at(8),
                   .interpreter_threads = at(9),
                   .thread_next = at(21),
                   .thread_id = at(25),
                   .thread_frame = at(23),
                   .c_frame = 0,
                   .frame_code = at(30),
                   .frame_previous = at(29),
                   .frame_owner = at(33),
                   .owner_shim = owned_by_c_stack,
                   .frame_is_entry = 0},
        .code = {
            .file_name = at(35), .qualified_name = at(37), .ascii_text = 40, .unicode_text = 56}};
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

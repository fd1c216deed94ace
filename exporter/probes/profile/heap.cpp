#include "exporter/probes/profile/heap.h"

#include <bpf/libbpf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/file_id.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/ebpf/object.h"
#include "exporter/processes/file_opener.h"
#include "exporter/symbols/elf/elf_file.h"
#include "exporter/symbols/stacks/mapped_files.h"

namespace gpusnoop::probes {

namespace {

constexpr std::uint32_t max_blocks = 1U << 20U;

constexpr std::array<std::string_view, 1> required = {"malloc"};

// By the place of the size. The names of C++ are the ones of operator new, which tcmalloc and
// jemalloc define; the C++ library's call malloc. aligned_alloc and memalign are one function in
// glibc.
constexpr std::array<std::string_view, 10> size_first = {"malloc",
                                                         "valloc",
                                                         "pvalloc",
                                                         "_Znwm",
                                                         "_Znam",
                                                         "_ZnwmRKSt9nothrow_t",
                                                         "_ZnamRKSt9nothrow_t",
                                                         "_ZnwmSt11align_val_t",
                                                         "_ZnamSt11align_val_t",
                                                         "mallocx"};
constexpr std::array<std::string_view, 1> counted = {"calloc"};
constexpr std::array<std::string_view, 2> size_second = {"aligned_alloc", "memalign"};
constexpr std::array<std::string_view, 1> size_third = {"posix_memalign"};
// reallocarray calls it.
constexpr std::array<std::string_view, 2> replacing = {"realloc", "rallocx"};
constexpr std::array<std::string_view, 10> freeing = {"free",
                                                      "cfree",
                                                      "sdallocx",
                                                      "dallocx",
                                                      "_ZdlPv",
                                                      "_ZdaPv",
                                                      "_ZdlPvm",
                                                      "_ZdaPvm",
                                                      "_ZdlPvSt11align_val_t",
                                                      "_ZdaPvSt11align_val_t"};

struct AllocatorFunctions {
    const bpf_program *enter;
    bool is_call;  // its return is of interest
    std::span<const std::string_view> names;
};

std::vector<AllocatorFunctions> allocator_functions(const profile_bpf &skeleton) {
    const auto &programs = skeleton.progs;
    return {{programs.prof_malloc, true, size_first},    {programs.prof_calloc, true, counted},
            {programs.prof_memalign, true, size_second}, {programs.prof_posix, true, size_third},
            {programs.prof_realloc, true, replacing},    {programs.prof_free, false, freeing}};
}

// Adds to `sets`, if the file is an allocator.
Result<> attach_to_file(const profile_bpf &skeleton, const ebpf::Mapping &mapping,
                        const processes::MappedFile &file, std::vector<ebpf::UprobeSet> &sets) {
    const auto elf = symbols::ElfFile::open(file.readable());
    if (!elf) {
        return {};  // not one that the loader would take
    }
    const auto found = elf->find_functions(required);
    if (!found || found->empty()) {
        return {};
    }
    for (const AllocatorFunctions &kind : allocator_functions(skeleton)) {
        const auto functions = elf->find_functions(kind.names);
        if (!functions) {
            return tl::unexpected(functions.error());
        }
        std::set<std::uint64_t> offsets;
        for (const symbols::FoundFunction &function : *functions) {
            if (function.probeable) {
                offsets.insert(function.file_offset);
            }
        }
        std::vector<ebpf::AttachPoint> points;
        for (const std::uint64_t offset : offsets) {
            points.push_back({.file_offset = offset, .cookie = 0, .entry_only = !kind.is_call});
        }
        // uprobe.multi could not be of one process before Linux 6.10: it was of one thread.
        auto set =
            ebpf::UprobeSet::attach({.mode = ebpf::AttachMode::perf,
                                     .enter = kind.enter,
                                     .leave = skeleton.progs.prof_allocated,
                                     .only_tgid = static_cast<int>(mapping.tgid)},
                                    {file.file.get(), mapping.file, file.file.kept()}, points);
        if (!set) {
            return tl::unexpected(set.error());
        }
        sets.push_back(std::move(*set));
    }
    return {};
}

}  // namespace

Result<> set_up_heap(profile_bpf &skeleton, const ProfileSettings &settings) {
    const bool is_heap = settings.type == ProfileType::heap;
    for (const AllocatorFunctions &kind : allocator_functions(skeleton)) {
        ebpf::load_if(const_cast<bpf_program *>(kind.enter), is_heap);
    }
    ebpf::load_if(skeleton.progs.prof_allocated, is_heap);
    skeleton.rodata->heap_min_bytes = settings.min_bytes;
    const int error = bpf_map__set_max_entries(skeleton.maps.prof_blocks, is_heap ? max_blocks : 1);
    return error == 0 ? Result<>() : fail_errno("set the size of the table of blocks", -error);
}

Result<std::vector<ebpf::UprobeSet>> attach_to_allocator(profile_bpf &skeleton,
                                                         std::uint32_t tgid) {
    const auto files = symbols::MappedFiles::open();
    if (!files) {
        return tl::unexpected(files.error());
    }
    const auto mappings = (*files)->list(tgid);
    if (!mappings) {
        return tl::unexpected(mappings.error());
    }
    std::vector<ebpf::UprobeSet> sets;
    std::vector<FileId> seen;
    for (const ebpf::Mapping &mapping : *mappings) {
        if (std::ranges::find(seen, mapping.file) != seen.end()) {
            continue;
        }
        seen.push_back(mapping.file);
        const auto file = (*files)->open_file(mapping);
        if (!file) {
            continue;
        }
        if (auto attached = attach_to_file(skeleton, mapping, *file, sets); !attached) {
            return tl::unexpected(attached.error());
        }
    }
    if (sets.empty()) {
        return fail("process " + std::to_string(tgid) +
                        " has no file that defines malloc: it has ended, or it is linked "
                        "statically and stripped",
                    ENOENT);
    }
    return sets;
}

}  // namespace gpusnoop::probes

// What the tests of ElfFile ask of one.
#pragma once

#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/symbols/elf/elf_file.h"
#include "tests/unit/symbols/elf/elf_image.h"

namespace gpusnoop::test {

using symbols::ElfFile;
using symbols::ElfLimits;
using symbols::FoundFunction;

inline constexpr std::uint64_t kHuge = ~std::uint64_t{0};

// Of a file that must be good.

inline std::vector<FoundFunction> find(const ElfFile &file, std::vector<std::string_view> names) {
    auto found = file.find_functions(names);
    INFO((found ? "" : found.error().message));
    REQUIRE(found);
    return *found;
}

inline std::vector<std::string> names_at(const ElfFile &file, std::vector<std::uint64_t> offsets) {
    auto found = file.functions_at(offsets);
    INFO((found ? "" : found.error().message));
    REQUIRE(found);
    std::vector<std::string> names;
    for (const symbols::FoundSymbol &function : *found) {
        names.push_back(function.name);
    }
    return names;
}

inline ElfFile open_good(const Fd &fd) {
    auto file = ElfFile::open(fd.get());
    INFO((file ? "" : file.error().message));
    REQUIRE(file);
    return *file;
}

// Of a file that may be anything.

inline ImageOptions small() {
    ImageOptions options;
    options.symtab = {
        {.name = "one", .value = ElfImage::kCodeVaddr + 0x100},
        {.name = "two__handle", .value = ElfImage::kCodeVaddr + 0x200, .type = STT_OBJECT}};
    options.dynsym = {{.name = "one", .value = ElfImage::kCodeVaddr + 0x100},
                      {.name = "three", .value = ElfImage::kCodeVaddr + 0x300}};
    return options;
}

// How often a call answered, and how often it ran out of time.
struct Outcome {
    int answers = 0;
    int errors = 0;
    int timeouts = 0;
    std::size_t functions = 0;

    template <typename T>
    bool count(const Result<T> &result) {
        answers += result ? 1 : 0;
        errors += result ? 0 : 1;
        timeouts += !result && result.error().code == ETIMEDOUT ? 1 : 0;
        CHECK((result || !result.error().message.empty()));
        return result.has_value();
    }
};

// Everything that an ElfFile can be asked.
inline Outcome ask_all(int fd, const ElfLimits &limits = {}) {
    Outcome outcome;
    const auto file = ElfFile::open(fd, limits);
    if (!outcome.count(file)) {
        return outcome;
    }
    constexpr std::array<std::string_view, 3> names{"one", "three", "dlopen"};
    const auto functions = file->find_functions(names);
    if (outcome.count(functions)) {
        outcome.functions = functions->size();
        for (const FoundFunction &function : *functions) {
            // What a uprobe would be attached to is always inside the file.
            CHECK(function.file_offset < static_cast<std::uint64_t>(::lseek(fd, 0, SEEK_END)));
        }
    }
    constexpr std::array<std::uint64_t, 5> offsets{
        0, ElfImage::kCodeOffset + 0x100, ElfImage::kCodeOffset + 0x30f, 0x1000, ~std::uint64_t{0}};
    const auto found = file->functions_at(offsets);
    if (outcome.count(found)) {
        CHECK(found->size() == offsets.size());
    }
    const auto listed = file->list_functions([](std::string_view name) { return !name.empty(); });
    if (outcome.count(listed)) {
        for (const symbols::ListedFunction &function : *listed) {
            CHECK(!function.name.empty());
            CHECK(function.file_offset < static_cast<std::uint64_t>(::lseek(fd, 0, SEEK_END)));
        }
    }
    outcome.count(file->find_by_suffix("e"));
    constexpr std::array<std::string_view, 2> sections{".text", ".note.go.buildid"};
    (void)file->has_section(sections);
    (void)file->build_id();
    (void)file->lowest_executable_vaddr();
    (void)file->to_vaddr(0x1000);
    (void)file->to_file_offset(ElfImage::kCodeVaddr);
    return outcome;
}

inline Result<std::vector<FoundFunction>> find_one(const ElfImage &image,
                                                   const ElfLimits &limits = {}) {
    const Fd fd = file_of(image.bytes());
    const auto file = ElfFile::open(fd.get(), limits);
    if (!file) {
        return tl::unexpected(file.error());
    }
    constexpr std::array<std::string_view, 1> names{"one"};
    return file->find_functions(names);
}

}  // namespace gpusnoop::test

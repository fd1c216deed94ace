// ElfFile on images whose symbols are known.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <tuple>

#include "exporter/symbols/elf/elf_file.h"
#include "tests/unit/symbols/elf/elf_image.h"
#include "tests/unit/symbols/elf/elf_questions.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;

namespace {

ImageOptions some_symbols() {
    ImageOptions options;
    options.symtab = {
        {.name = "local_helper", .value = kCode + 0x300, .bind = STB_LOCAL},
        {.name = "picked", .value = kCode + 0x400, .type = STT_GNU_IFUNC},
        {.name = "table", .value = ElfImage::kDataVaddr + 0x10, .type = STT_OBJECT},
        {.name = "in_data", .value = ElfImage::kDataVaddr + 0x20},
        {.name = "nowhere", .value = 0x99999999},
        {.name = "zero", .value = 0},
        {.name = "missing", .value = kCode + 0x10, .section = SHN_UNDEF},
        {.name = "exported", .value = kCode + 0x100, .size = 0x40},
    };
    options.dynsym = {
        {.name = "missing", .value = 0, .section = SHN_UNDEF},
        {.name = "exported", .value = kCode + 0x100, .size = 0x40},
        {.name = "exported_v2", .value = kCode + 0x100, .size = 0x40, .bind = STB_WEAK},
        {.name = "only_dynamic", .value = kCode + 0x200, .size = 0x20},
    };
    return options;
}

}  // namespace

TEST_CASE("image: only defined code is a function", "[elf_file]") {
    const Fd fd = file_of(ElfImage(some_symbols()).bytes());
    const ElfFile file = open_good(fd);
    const std::vector<std::string_view> names{
        "exported", "exported_v2", "only_dynamic", "missing", "local_helper", "picked", "table",
        "in_data",  "nowhere",     "zero",         "",        "export",       "ported"};
    const auto found = find(file, names);
    REQUIRE(found.size() == 5);
    const std::array<std::tuple<std::size_t, std::uint64_t, bool>, 5> expected{{{0, 0x100, true},
                                                                                {1, 0x100, true},
                                                                                {2, 0x200, true},
                                                                                {4, 0x300, true},
                                                                                {5, 0x400, false}}};
    for (std::size_t i = 0; i < found.size(); ++i) {
        const auto [name, at, probeable] = expected[i];
        CHECK(found[i].name == name);
        CHECK(found[i].vaddr == kCode + at);
        CHECK(found[i].file_offset == ElfImage::offset_of(kCode + at));
        CHECK(found[i].probeable == probeable);
    }
    CHECK(found[0].size == 0x40);
    CHECK(file.build_id() == std::string(ElfImage::kBuildId));
    CHECK(file.machine() == EM_X86_64);
    CHECK(file.lowest_executable_vaddr() == kCode);
}

TEST_CASE("image: addresses and offsets", "[elf_file]") {
    const Fd fd = file_of(ElfImage(some_symbols()).bytes());
    const ElfFile file = open_good(fd);
    CHECK(file.to_file_offset(kCode) == ElfImage::kCodeOffset);
    CHECK(file.to_file_offset(kCode + ElfImage::kCodeSize - 1) ==
          ElfImage::kCodeOffset + ElfImage::kCodeSize - 1);
    CHECK_FALSE(file.to_file_offset(kCode + ElfImage::kCodeSize));
    CHECK_FALSE(file.to_file_offset(kCode - 1));
    CHECK(file.to_file_offset(ElfImage::kDataVaddr + 5) == 5);
    CHECK(file.to_vaddr(ElfImage::kCodeOffset + 9) == kCode + 9);
    CHECK_FALSE(file.to_vaddr(ElfImage::kCodeOffset - 1));  // data is not executable
    CHECK_FALSE(file.to_vaddr(ElfImage::kCodeOffset + ElfImage::kCodeSize));
    CHECK_FALSE(file.to_vaddr(~std::uint64_t{0}));

    ElfImage both(some_symbols());
    both.change_segment(ElfImage::kData, [](auto &segment) { segment.p_flags = PF_R | PF_X; });
    const Fd both_fd = file_of(both.bytes());
    CHECK(open_good(both_fd).lowest_executable_vaddr() == ElfImage::kDataVaddr);
}

TEST_CASE("image: symbols through PT_DYNAMIC alone", "[elf_file]") {
    ImageOptions options = some_symbols();
    options.sections = false;
    options.gnu_hash = GENERATE(false, true);
    const Fd fd = file_of(ElfImage(options).bytes());
    const ElfFile file = open_good(fd);
    CHECK(
        find(file, {"exported", "exported_v2", "only_dynamic", "missing", "local_helper"}).size() ==
        3);
    CHECK(names_at(file, {ElfImage::kCodeOffset + 0x21f})[0] == "only_dynamic");
    CHECK(file.section_problem().empty());
}

TEST_CASE("image: which function covers an offset", "[elf_file]") {
    ImageOptions options;
    options.symtab = {
        {.name = "weak", .value = kCode + 0x100, .size = 0x40, .bind = STB_WEAK},
        {.name = "local", .value = kCode + 0x100, .size = 0x40, .bind = STB_LOCAL},
        {.name = "global", .value = kCode + 0x100, .size = 0x40},
        {.name = "global_too", .value = kCode + 0x100, .size = 0x40},
        {.name = "outer", .value = kCode + 0x200, .size = 0x100},
        {.name = "inner", .value = kCode + 0x240, .size = 0x10, .bind = STB_LOCAL},
        {.name = "unsized", .value = kCode + 0x400, .size = 0},
        {.name = "data", .value = kCode + 0x500, .type = STT_OBJECT},
        {.name = "static", .value = kCode + 0x600, .bind = STB_LOCAL},
        {.name = "inline", .value = kCode + 0x600, .bind = STB_WEAK},
        {.name = "endless", .value = kCode + 0xf00, .size = ~std::uint64_t{0}},
    };
    options.dynsym = {{.name = "dynamic", .value = kCode + 0x100, .size = 0x40}};
    const Fd fd = file_of(ElfImage(options).bytes());
    constexpr std::uint64_t at = ElfImage::kCodeOffset;
    CHECK(names_at(open_good(fd),
                   {at + 0x13f, at + 0x140, at + 0x100, at + 0x23f, at + 0x240, at + 0x250,
                    at + 0x2ff, at + 0x300, at + 0x400, at + 0x401, at + 0x500, at + 0xff, 5,
                    ~std::uint64_t{0}, at + 0xfff, at + 0x600}) ==
          std::vector<std::string>{"global", "", "global", "outer", "inner", "outer", "outer", "",
                                   "unsized", "", "", "", "", "", "endless", "inline"});
}

TEST_CASE("image: names that share their ends", "[elf_file]") {
    ImageOptions options;
    options.symtab = {{.name = "cudaMalloc", .value = kCode + 0x100},
                      {.name = "Malloc", .value = kCode + 0x200}};
    ElfImage image(options);
    image.change_symbol(2, [](auto &s) { s.st_name = 1 + 4; });  // inside of "cudaMalloc"
    const Fd fd = file_of(image.bytes());
    const auto found = find(open_good(fd), {"Malloc", "cudaMalloc", "Malloc"});
    REQUIRE(found.size() == 3);
    CHECK(found[0].vaddr == kCode + 0x200);
    CHECK(found[1].vaddr == kCode + 0x100);
    CHECK(found[2].vaddr == kCode + 0x200);  // asked for twice

    const auto by_ending = open_good(fd).find_by_suffix("alloc");
    REQUIRE(by_ending);
    REQUIRE(by_ending->size() == 2);
    CHECK((*by_ending)[0].name == "cudaMalloc");
    CHECK((*by_ending)[1].name == "Malloc");
    CHECK(open_good(fd).find_by_suffix("Malloc")->size() == 2);
    CHECK(open_good(fd).find_by_suffix("aMalloc")->size() == 1);

    // The empty string in front of a name is not that name.
    image.change_symbol(2, [](auto &symbol) { symbol.st_name = 0; });
    const Fd unnamed = file_of(image.bytes());
    CHECK(open_good(unnamed).find_by_suffix("Malloc")->size() == 1);
    image.change_symbol(2, [](auto &symbol) { symbol.st_name = 11; });  // the NUL after the first
    const Fd between = file_of(image.bytes());
    CHECK(open_good(between).find_by_suffix("Malloc")->size() == 1);
    CHECK_FALSE(open_good(fd).find_by_suffix(""));
}

TEST_CASE("image: a name across the pieces in which strings are read", "[elf_file]") {
    constexpr std::string_view name = "a_name_that_is_cut_in_two";
    for (std::size_t shift = 0; shift <= name.size() + 2; ++shift) {
        CAPTURE(shift);
        ImageOptions options;
        options.strings_before = std::string(ElfReader::chunk_bytes - shift - 1, 'x');
        options.strings_before.back() = '\0';
        options.symtab = {{.name = std::string(name), .value = kCode + 0x100},
                          {.name = "z", .value = kCode + 0x200}};
        const Fd fd = file_of(ElfImage(options).bytes());
        const auto found = find(open_good(fd), {name, "z"});
        REQUIRE(found.size() == 2);
        CHECK(found[0].vaddr == kCode + 0x100);
        CHECK(open_good(fd).find_by_suffix("cut_in_two")->size() == 1);
        CHECK(names_at(open_good(fd), {ElfImage::offset_of(kCode + 0x100)})[0] == name);
    }
}

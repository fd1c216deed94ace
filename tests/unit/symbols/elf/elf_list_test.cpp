// The listing of functions of ElfFile.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <random>
#include <set>

#include "exporter/symbols/elf/elf_file.h"
#include "tests/unit/symbols/elf/elf_image.h"
#include "tests/unit/symbols/elf/elf_questions.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;

namespace {

bool elf_all(std::string_view) {
    return true;
}

Result<std::vector<ListedFunction>> names_of_list(const ElfImage &image,
                                                  const ElfLimits &limits = {}) {
    const Fd fd = file_of(image.bytes());
    const auto file = ElfFile::open(fd.get(), limits);
    return file ? file->list_functions(elf_all) : tl::unexpected(file.error());
}

std::vector<std::string> names_in(const ElfImage &image) {
    const auto listed = names_of_list(image);
    INFO((listed ? "" : listed.error().message));
    REQUIRE(listed);
    std::vector<std::string> names;
    for (const ListedFunction &function : *listed) {
        names.push_back(function.name);
    }
    return names;
}

}  // namespace

TEST_CASE("list: functions that are defined, each once", "[elf_list]") {
    ImageOptions options;
    options.symtab = {
        {.name = "local", .value = kCode + 0x300, .bind = STB_LOCAL},
        {.name = "picked", .value = kCode + 0x400, .type = STT_GNU_IFUNC},
        {.name = "table", .value = ElfImage::kDataVaddr + 0x10, .type = STT_OBJECT},
        {.name = "in_data", .value = ElfImage::kDataVaddr + 0x20},
        {.name = "nowhere", .value = 0x99999999},
        {.name = "zero", .value = 0},
        {.name = "missing", .value = kCode + 0x10, .section = SHN_UNDEF},
        {.name = "", .value = kCode + 0x10},
        {.name = "both", .value = kCode + 0x100, .size = 0x40, .bind = STB_WEAK},
        {.name = "twice", .value = kCode + 0x500, .size = 1, .bind = STB_LOCAL},
        {.name = "twice", .value = kCode + 0x480, .size = 2, .bind = STB_LOCAL},
        {.name = "with@@VERSION", .value = kCode + 0x600},
    };
    options.dynsym = {{.name = "missing", .section = SHN_UNDEF},
                      {.name = "both", .value = kCode + 0x100, .size = 0x41},
                      {.name = "alias", .value = kCode + 0x100, .size = 0x40, .bind = STB_WEAK},
                      {.name = "_ZN1a1bEv", .value = kCode + 0x200}};
    const auto listed = names_of_list(ElfImage(options));
    REQUIRE(listed);
    struct Expected {
        std::string_view name;
        std::uint64_t at, size;
        bool probeable, global;
    };
    constexpr std::array<Expected, 8> expected{{{"_ZN1a1bEv", 0x200, 16, true, true},
                                                {"alias", 0x100, 0x40, true, false},
                                                {"both", 0x100, 0x41, true, true},
                                                {"local", 0x300, 16, true, false},
                                                {"picked", 0x400, 16, false, true},
                                                {"twice", 0x480, 2, true, false},
                                                {"twice", 0x500, 1, true, false},
                                                {"with@@VERSION", 0x600, 16, true, true}}};
    REQUIRE(listed->size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const ListedFunction &function = (*listed)[i];
        CAPTURE(i);
        CHECK(function.name == expected[i].name);
        CHECK(function.vaddr == kCode + expected[i].at);
        CHECK(function.file_offset == ElfImage::offset_of(kCode + expected[i].at));
        CHECK(function.size == expected[i].size);
        CHECK(function.probeable == expected[i].probeable);
        CHECK(function.global == expected[i].global);
    }
}

TEST_CASE("list: each name is asked for, and only what is wanted is listed", "[elf_list]") {
    ImageOptions options;
    options.symtab = {{.name = "cudaMalloc", .value = kCode + 0x100},
                      {.name = "Malloc", .value = kCode + 0x200},
                      {.name = "cudaFree", .value = kCode + 0x300},
                      {.name = "data", .value = kCode + 0x400, .type = STT_OBJECT}};
    ElfImage image(options);
    image.change_symbol(2, [](auto &s) { s.st_name = 1 + 4; });  // inside of "cudaMalloc"
    const Fd fd = file_of(image.bytes());
    std::vector<std::string> asked;
    const auto listed = open_good(fd).list_functions([&](std::string_view name) {
        asked.emplace_back(name);
        return name == "Malloc";
    });
    CHECK(asked == std::vector<std::string>{"cudaMalloc", "Malloc", "cudaFree"});
    REQUIRE(listed);
    REQUIRE(listed->size() == 1);
    CHECK(listed->front().vaddr == kCode + 0x200);
    CHECK(open_good(fd).list_functions([](std::string_view) { return false; })->empty());
}

TEST_CASE("list: through PT_DYNAMIC alone, and nothing without symbols", "[elf_list]") {
    ImageOptions options = small();
    options.sections = false;
    CHECK(names_in(ElfImage(options)) == std::vector<std::string>{"one", "three"});
    ElfImage image(options);
    image.change_segment(ElfImage::kDynamic, [](auto &s) { s.p_type = PT_NULL; });
    CHECK(names_in(image).empty());
}

TEST_CASE("list: names across the pieces in which strings are read", "[elf_list]") {
    constexpr std::string_view name = "a_name_that_is_cut_in_two";
    for (std::size_t shift = 0; shift <= name.size() + 2; ++shift) {
        CAPTURE(shift);
        ImageOptions options;
        options.strings_before = std::string(ElfReader::chunk_bytes - shift - 1, 'x');
        options.strings_before.back() = '\0';
        options.symtab = {{.name = "first", .value = kCode + 0x100},
                          {.name = std::string(name), .value = kCode + 0x200},
                          {.name = "z", .value = kCode + 0x300}};
        ElfImage image(options);
        // At the front, so that the first piece begins there.
        image.change_symbol(1, [&](auto &s) {
            s.st_name = static_cast<Elf64_Word>(options.strings_before.size() - 3);
        });
        CHECK(names_in(image) == std::vector<std::string>{std::string(name), "xxx", "z"});
    }
}

TEST_CASE("list: names that are too long or do not end are no names", "[elf_list]") {
    const std::string longest(ElfFile::max_name_bytes, 'x');
    ImageOptions options;
    options.symtab = {{.name = longest + "x", .value = kCode + 0x100},
                      {.name = longest, .value = kCode + 0x200},
                      {.name = "y", .value = kCode + 0x300},
                      {.name = "z", .value = kCode + 0x400}};
    ElfImage image(options);
    image.change_section(ElfImage::kStrtab, [](auto &s) { --s.sh_size; });  // no NUL after the last
    CHECK(names_in(image) == std::vector<std::string>{longest, "y"});
    image.change_symbol(3, [](auto &s) { s.st_name = 2; });  // the end of the one that is too long
    CHECK(names_in(image) == std::vector<std::string>{longest, longest});
    image.change_symbol(3, [](auto &s) { s.st_name = 0xffffffff; });
    CHECK(names_in(image) == std::vector<std::string>{longest});
}

TEST_CASE("list: limits are kept", "[elf_list]") {
    const ElfImage image(small());
    REQUIRE(names_of_list(image));
    ElfLimits limits;
    limits.max_bytes_read = 200;
    CHECK(names_of_list(image, limits).error().code == EFBIG);
    limits = {};
    limits.deadline = std::chrono::steady_clock::duration(0);
    CHECK(names_of_list(image, limits).error().code == ETIMEDOUT);

    // One name for as many functions as may be listed, and for one more.
    ImageOptions many;
    many.symtab.resize(ElfFile::max_matches, {.name = "", .value = kCode});
    many.symtab.front().name.assign(1, 'f');
    ElfImage full(many);
    for (std::size_t i = 1; i <= ElfFile::max_matches; ++i) {
        full.change_symbol(i, [](auto &s) { s.st_name = 1; });
    }
    limits.deadline = std::chrono::minutes(5);  // also on a busy machine, with a sanitizer
    CHECK(names_of_list(full, limits)->size() == 1);
    many.symtab.push_back({.name = "g", .value = kCode + 1});
    ElfImage over(many);
    for (std::size_t i = 1; i <= ElfFile::max_matches; ++i) {
        over.change_symbol(i, [](auto &s) { s.st_name = 1; });
    }
    const auto failed = names_of_list(over, limits);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().message == "too many of its functions match");
    CHECK(failed.error().code == EFBIG);
}

TEST_CASE("list: long names that are all alike cost a bounded amount", "[elf_list]") {
    // Each starts one byte after the one before, in the same string.
    constexpr std::size_t count = 2 * ElfFile::max_matched_name_bytes / ElfFile::max_name_bytes;
    ImageOptions options;
    options.strings_before = std::string(ElfFile::max_name_bytes, 'x') + '\0';
    options.symtab.resize(count, {.name = "", .value = kCode});
    ElfImage image(options);
    for (std::size_t i = 1; i <= count; ++i) {
        image.change_symbol(i, [&](auto &s) { s.st_name = static_cast<Elf64_Word>(i); });
    }
    CHECK(names_of_list(image).error().code == EFBIG);
    // The same name each time: asked about once, but listed with each place.
    for (std::size_t i = 1; i <= count; ++i) {
        image.change_symbol(i, [&](auto &s) { s.st_name = 1; });
    }
    CHECK(names_of_list(image).error().code == EFBIG);
}

TEST_CASE("list: ten million symbols in a file of holes", "[elf_list]") {
    ElfImage image(small());
    image.change_section(ElfImage::kSymtab, [](auto &s) {
        s.sh_offset = 1 << 20;
        s.sh_size = 10'000'000ULL * sizeof(Elf64_Sym);
    });
    image.change_section(ElfImage::kStrtab, [](auto &s) {
        s.sh_offset = 1 << 20;
        s.sh_size = 200 << 20;
    });
    const Fd fd = file_of(image.bytes());
    REQUIRE(::ftruncate(fd.get(), 300 << 20) == 0);
    const auto listed = open_good(fd).list_functions(elf_all);  // of .dynsym, or the time is over
    CHECK((listed ? listed->size() == 2 : listed.error().code == ETIMEDOUT));
}

TEST_CASE("list: random symbols are listed as one by one", "[elf_list]") {
    std::mt19937_64 random(7);
    for (int round = 0; round < 200; ++round) {
        CAPTURE(round);
        ImageOptions options;
        const std::size_t count = 1 + random() % 40;
        for (std::size_t i = 0; i < count; ++i) {
            options.symtab.push_back(
                {.name = std::string(random() % 5, static_cast<char>('a' + random() % 3)),
                 .value = kCode + random() % 64,
                 .type = random() % 4 == 0 ? unsigned{STT_OBJECT} : unsigned{STT_FUNC}});
        }
        ElfImage image(options);
        std::set<std::pair<std::string, std::uint64_t>> expected;
        std::string strings(1, '\0');
        for (const ImageSymbol &symbol : options.symtab) {
            strings += symbol.name + '\0';
        }
        for (std::size_t i = 1; i <= count; ++i) {
            image.change_symbol(i, [&](auto &s) {
                s.st_name = static_cast<Elf64_Word>(random() % (strings.size() + 2));
                if (s.st_name < strings.size() && strings[s.st_name] != '\0' &&
                    ELF64_ST_TYPE(s.st_info) == STT_FUNC) {
                    expected.emplace(strings.c_str() + s.st_name, s.st_value);
                }
            });
        }
        const auto listed = names_of_list(image);
        REQUIRE(listed);
        std::set<std::pair<std::string, std::uint64_t>> found;
        for (const ListedFunction &function : *listed) {
            CHECK(found.emplace(function.name, function.vaddr).second);
        }
        CHECK(found == expected);
    }
}

TEST_CASE("list: the test itself, as names are found", "[elf_list][bulk]") {
    const Fd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const ElfFile file = open_good(fd);
    const auto listed = file.list_functions(
        [](std::string_view name) { return name.find("ElfFile") != std::string_view::npos; });
    REQUIRE(listed);
    CHECK(listed->size() > 5);
    std::vector<std::string_view> names;
    for (const ListedFunction &function : *listed) {
        if (names.empty() || names.back() != function.name) {
            names.push_back(function.name);
        }
    }
    CHECK(find(file, names).size() == listed->size());
}

// ElfFile on files that lie: every case ends in an answer or an error.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <functional>

#include "exporter/symbols/elf/elf_file.h"
#include "tests/unit/symbols/elf/elf_image.h"
#include "tests/unit/symbols/elf/elf_questions.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;

namespace {

std::string open_error(int fd) {
    const auto file = ElfFile::open(fd);
    return file ? "" : file.error().message;
}

}  // namespace

TEST_CASE("not a regular file, or not an ELF file we know", "[elf_file]") {
    const Fd directory(::open("/tmp", O_RDONLY | O_CLOEXEC));
    CHECK(open_error(directory.get()) == "not a regular file");
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const Fd read_end(ends[0]);
    const Fd write_end(ends[1]);
    CHECK(open_error(read_end.get()) == "not a regular file");
    CHECK(open_error(-1).starts_with("stat: "));
    CHECK(open_error(file_of({}).get()) == "not an ELF file: too short");
    CHECK(open_error(file_of(std::vector<std::byte>(4096)).get()) == "not an ELF file");

    const auto error_after = [](auto change) {
        ElfImage image(small());
        image.change_header(change);
        return open_error(file_of(image.bytes()).get());
    };
    CHECK(error_after([](auto &) {}).empty());
    CHECK(error_after([](auto &h) { h.e_ident[EI_CLASS] = ELFCLASS32; }) ==
          "not a 64-bit ELF file");
    CHECK(error_after([](auto &h) { h.e_ident[EI_DATA] = ELFDATA2MSB; }) ==
          "not a little-endian ELF file");
    CHECK(error_after([](auto &h) { h.e_ident[EI_VERSION] = 9; }) ==
          "an ELF file of an unknown version");
    CHECK(error_after([](auto &h) { h.e_machine = EM_RISCV; }) ==
          "an ELF file for machine 243, neither x86_64 nor aarch64");
    CHECK(error_after([](auto &h) { h.e_machine = EM_AARCH64; }).empty());
    CHECK(error_after([](auto &h) { h.e_type = ET_REL; }) ==
          "neither an executable nor a shared library");
    CHECK(error_after([](auto &h) { h.e_phnum = 0; }) == "it has no program headers");
    CHECK(error_after([](auto &h) { h.e_phnum = PN_XNUM; }) ==
          "it has more than 4096 program headers");
    CHECK(error_after([](auto &h) { h.e_phentsize = 57; }) ==
          "its program headers have an unknown size");
    CHECK(error_after([](auto &h) { h.e_phoff = kHuge; }) ==
          "program headers: a table lies outside the file");
}

TEST_CASE("wrong section headers are set aside: the loader's symbols remain", "[elf_file]") {
    const auto check = [](const char *what, const std::function<void(ElfImage &)> &damage) {
        INFO(what);
        ElfImage image(small());
        damage(image);
        const Fd fd = file_of(image.bytes());
        const auto file = ElfFile::open(fd.get());
        REQUIRE(file);
        CHECK_FALSE(file->section_problem().empty());
        constexpr std::array<std::string_view, 2> names{"one", "three"};
        const auto found = file->find_functions(names);
        REQUIRE(found);
        CHECK(found->size() == 2);
        CHECK(ask_all(fd.get()).timeouts == 0);

        // And with PT_DYNAMIC gone, too, an error rather than "no such function".
        if (image.read<Elf64_Ehdr>(0).e_shnum != ElfImage::kSections) {
            image.change_segment(ElfImage::kDynamic, [](auto &s) { s.p_type = PT_NULL; });
            CHECK_FALSE(find_one(image));
        }
    };
    check("65535 sections",
          [](ElfImage &i) { i.change_header([](auto &h) { h.e_shnum = 65535; }); });
    check("table past the end",
          [](ElfImage &i) { i.change_header([](auto &h) { h.e_shoff = 1 << 30; }); });
    check("table that wraps",
          [](ElfImage &i) { i.change_header([](auto &h) { h.e_shoff = kHuge - 63; }); });
    check("entry size", [](ElfImage &i) { i.change_header([](auto &h) { h.e_shentsize = 1; }); });
    check("extended count", [](ElfImage &i) {
        i.change_header([](auto &h) { h.e_shnum = 0; });
        i.change_section(ElfImage::kNull, [](auto &s) { s.sh_size = kHuge; });
    });
    const auto damage_symtab = [&](const char *what, auto change) {
        check(what, [&](ElfImage &i) { i.change_section(ElfImage::kSymtab, change); });
    };
    damage_symtab("sh_link out of range", [](auto &s) { s.sh_link = ElfImage::kSections; });
    damage_symtab("sh_link to itself", [](auto &s) { s.sh_link = ElfImage::kSymtab; });
    damage_symtab("sh_link huge", [](auto &s) { s.sh_link = 0xffffffff; });
    damage_symtab("entry size 0", [](auto &s) { s.sh_entsize = 0; });
    damage_symtab("symbols past the end", [](auto &s) { s.sh_offset = 1 << 30; });
    damage_symtab("symbols that wrap", [](auto &s) { s.sh_offset = kHuge - 23; });
    damage_symtab("too many symbols", [](auto &s) { s.sh_size = 24 * 10'000'001ULL; });
    damage_symtab("most symbols", [](auto &s) { s.sh_size = kHuge; });
    const auto damage_strtab = [&](const char *what, auto change) {
        check(what, [&](ElfImage &i) { i.change_section(ElfImage::kStrtab, change); });
    };
    damage_strtab("strings past the end", [](auto &s) { s.sh_offset = 1 << 30; });
    damage_strtab("strings longer than the file", [](auto &s) { s.sh_size = 1 << 30; });
    damage_strtab("strings that wrap", [](auto &s) { s.sh_offset = kHuge; });
    damage_strtab("no strings", [](auto &s) { s.sh_type = SHT_PROGBITS; });
}

TEST_CASE("an extended section count is followed", "[elf_file]") {
    ElfImage image(small());
    image.change_header([](auto &h) { h.e_shnum = 0; });
    image.change_section(ElfImage::kNull, [](auto &s) { s.sh_size = ElfImage::kSections; });
    const Fd fd = file_of(image.bytes());
    const auto file = ElfFile::open(fd.get());
    REQUIRE(file);
    CHECK(file->section_problem().empty());
    CHECK(file->find_by_suffix("__handle")->size() == 1);  // .symtab is seen
}

TEST_CASE("symbols that lie are not found, and harm nothing", "[elf_file]") {
    const auto check = [](const char *what, auto change) {
        INFO(what);
        ElfImage image(small());
        image.change_symbol(1, change);
        image.change_section(ElfImage::kDynsym, [](auto &s) { s.sh_type = SHT_NULL; });
        image.change_segment(ElfImage::kDynamic, [](auto &s) { s.p_type = PT_NULL; });
        const auto found = find_one(image);
        REQUIRE(found);
        CHECK(found->empty());
        CHECK(ask_all(file_of(image.bytes()).get()).timeouts == 0);
    };
    check("name past the end", [](auto &s) { s.st_name = 0xffffffff; });
    check("name at the end", [](auto &s) { s.st_name = 17; });
    check("undefined", [](auto &s) { s.st_shndx = SHN_UNDEF; });
    check("zero", [](auto &s) { s.st_value = 0; });
    check("highest address", [](auto &s) { s.st_value = kHuge; });
    check("in no segment", [](auto &s) { s.st_value = kCode + ElfImage::kCodeSize; });
    check("in data", [](auto &s) { s.st_value = ElfImage::kDataVaddr; });
    check("data", [](auto &s) { s.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT); });
}

TEST_CASE("segments that lie", "[elf_file]") {
    ElfImage image(small());
    image.change_segment(ElfImage::kCode, [](auto &s) { s.p_filesz = kHuge; });
    CHECK(ask_all(file_of(image.bytes()).get()).functions == 2);

    // An offset that would be past the end or would wrap is no place for a probe.
    image.change_segment(ElfImage::kCode, [](auto &s) { s.p_offset = kHuge - 0x50; });
    CHECK(find_one(image)->empty());
    image.change_segment(ElfImage::kCode, [](auto &s) { s.p_offset = std::uint64_t{1} << 40; });
    CHECK(find_one(image)->empty());
    image.change_segment(ElfImage::kNote, [](auto &s) { s.p_offset = kHuge; });
    CHECK_FALSE(ElfFile::open(file_of(image.bytes()).get())->build_id());
    image.change_segment(ElfImage::kCode, [](auto &s) { s.p_flags = PF_R; });
    CHECK_FALSE(ElfFile::open(file_of(image.bytes()).get())->lowest_executable_vaddr());
}

TEST_CASE("dynamic sections that lie", "[elf_file]") {
    const auto check = [](const char *what, bool gnu_hash,
                          const std::function<void(ElfImage &)> &damage) {
        INFO(what);
        ImageOptions options = small();
        options.sections = false;
        options.gnu_hash = gnu_hash;
        ElfImage image(options);
        REQUIRE(find_one(image)->size() == 1);
        damage(image);
        CHECK_FALSE(find_one(image));
        CHECK(ask_all(file_of(image.bytes()).get()).timeouts == 0);
    };
    const auto entry = [](int index, std::uint64_t value) {
        return [=](ElfImage &image) {
            const auto at =
                image.dynamic_at + static_cast<std::uint64_t>(index) * sizeof(Elf64_Dyn);
            image.change<Elf64_Dyn>(at, [&](auto &e) { e.d_un.d_val = value; });
        };
    };
    check("symbols nowhere", false, entry(0, kHuge));
    check("strings nowhere", false, entry(1, 1));
    check("strings too long", false, entry(2, kHuge));
    check("symbol size", false, entry(3, 1));
    check("hash nowhere", false, entry(4, kHuge));
    check("hash nowhere", true, entry(4, 0));
    check("section too long", false, [](ElfImage &image) {
        image.change_segment(ElfImage::kDynamic, [](auto &s) { s.p_filesz = kHuge; });
    });
    const auto word = [](int index, std::uint32_t value) {
        return [=](ElfImage &image) {
            image.write(image.hash_at + static_cast<std::uint64_t>(index) * 4, value);
        };
    };
    check("4 billion symbols", false, word(1, 0xffffffff));
    check("4 billion buckets", true, word(0, 0xffffffff));
    check("4 billion bloom words", true, word(2, 0xffffffff));
    check("chain far away", true, word(6, 0xfffffff0));
    check("chain that does not end", true, [](ElfImage &image) {
        const std::uint64_t chains = image.hash_at + 28;  // of symbol 1
        const std::uint64_t start = image.dynamic_at + 6 * sizeof(Elf64_Dyn);
        image.write(image.hash_at + 24, static_cast<std::uint32_t>(1 + (start - chains) / 4));
        for (std::uint64_t at = start; at + 4 <= image.bytes().size(); at += 4) {
            image.write(at, std::uint32_t{2});
        }
    });
}

TEST_CASE("a section header behind the table is none", "[elf_file]") {
    ElfImage image(small());
    const auto strings =
        image.read<Elf64_Shdr>(image.sections_at + ElfImage::kStrtab * sizeof(Elf64_Shdr));
    const std::uint64_t behind = image.sections_at + ElfImage::kSections * sizeof(Elf64_Shdr);
    image.resize(behind + sizeof(strings));
    image.write(behind, strings);
    image.change_section(ElfImage::kSymtab, [](auto &s) { s.sh_link = ElfImage::kSections; });
    const Fd fd = file_of(image.bytes());
    CHECK(ElfFile::open(fd.get())->section_problem() == "its symbol table has no string table");
}

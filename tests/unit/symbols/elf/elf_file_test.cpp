// ElfFile on real files: the test's own executable and the C library.
#include "exporter/symbols/elf/elf_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/unit/symbols/elf/elf_image.h"
#include "tests/unit/symbols/elf/elf_questions.h"
#include "tests/unit/symbols/own_process.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;

extern "C" {
__attribute__((noinline, used)) int elf_test_first(int x) {
    return x * 3 + 1;
}
__attribute__((noinline, used)) int elf_test_second(int x) {
    return x * 5 + elf_test_first(x);
}
extern __attribute__((alias("elf_test_first"), nothrow)) int elf_test_alias(int x);
int elf_test_data = 7;
}

namespace {

// The load address of the main program.
std::uint64_t own_base() {
    std::uint64_t base = 0;
    ::dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *out) {
            *static_cast<std::uint64_t *>(out) = info->dlpi_addr;
            return 1;
        },
        &base);
    return base;
}

std::array<char, 8> bytes_at(int fd, std::uint64_t offset) {
    std::array<char, 8> bytes{};
    REQUIRE(::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)) == 8);
    return bytes;
}

}  // namespace

TEST_CASE("own executable: functions are where the loader put them", "[elf_file]") {
    const Fd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const ElfFile file = open_good(fd);
    CHECK(file.section_problem().empty());

    const auto found = find(file, {"elf_test_first", "elf_test_second", "elf_test_alias",
                                   "elf_test_absent", "elf_test_data", "memfd_create"});
    REQUIRE(found.size() == 3);
    CHECK(found[0].vaddr + own_base() == address_of(&elf_test_first));
    CHECK(found[1].vaddr + own_base() == address_of(&elf_test_second));
    CHECK(found[2].file_offset == found[0].file_offset);
    CHECK(found[2].name == 2);
    CHECK(found[0].probeable);

    std::array<char, 8> in_memory{};
    std::memcpy(in_memory.data(), reinterpret_cast<const void *>(&elf_test_first), 8);
    CHECK(bytes_at(fd.get(), found[0].file_offset) == in_memory);
    CHECK(file.to_file_offset(found[0].vaddr) == found[0].file_offset);
    CHECK(file.to_vaddr(found[0].file_offset) == found[0].vaddr);

    const auto names = names_at(file, {found[1].file_offset + 1, found[0].file_offset});
    CHECK(names[0] == "elf_test_second");
    CHECK((names[1] == "elf_test_first" || names[1] == "elf_test_alias"));
}

TEST_CASE("own executable: the start code is where the kernel says", "[elf_file]") {
    const Fd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const ElfFile file = open_good(fd);
    std::ifstream stat("/proc/self/stat");
    std::string line;
    std::getline(stat, line);
    std::istringstream fields(line.substr(line.rfind(')') + 2));  // field 3 and on
    const std::vector<std::string> values{std::istream_iterator<std::string>(fields), {}};
    REQUIRE(values.size() > 23);
    REQUIRE(file.lowest_executable_vaddr());
    CHECK(std::to_string(own_base() + *file.lowest_executable_vaddr()) == values[23]);
}

TEST_CASE("data symbols are found by the end of their name", "[elf_file]") {
    const Fd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const auto found = open_good(fd).find_by_suffix("f_test_data");
    REQUIRE(found);
    // Sanitizers add symbols whose names end with this one's.
    const auto data = std::find_if(found->begin(), found->end(),
                                   [](const auto &s) { return s.name == "elf_test_data"; });
    REQUIRE(data != found->end());
    CHECK(data->vaddr + own_base() == address_of(&elf_test_data));
}

TEST_CASE("C library: with and without section headers, the same as dlsym", "[elf_file]") {
    void *const libc = ::dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    if (libc == nullptr) {
        SKIP("this program has no libc.so.6");
    }
    Dl_info where{};
    REQUIRE(::dladdr(::dlsym(libc, "qsort"), &where) != 0);
    const Fd fd(::open(where.dli_fname, O_RDONLY | O_CLOEXEC));
    const ElfFile file = open_good(fd);
    const std::vector<std::string_view> names{"qsort", "write", "fopen64", "pthread_create"};

    const auto found = find(file, names);
    for (std::size_t i = 0; i < names.size(); ++i) {
        INFO(names[i]);
        const auto address =
            address_of(::dlsym(libc, std::string(names[i]).c_str())) - address_of(where.dli_fbase);
        CHECK(std::any_of(found.begin(), found.end(), [&](const auto &function) {
            return function.name == i && function.vaddr == address;
        }));
    }
    CHECK(file.build_id().value_or("").size() == 40);

#ifdef __x86_64__
    const auto ifunc = find(file, {"memcpy"});
    CHECK(std::any_of(ifunc.begin(), ifunc.end(), [](const auto &f) { return !f.probeable; }));
#endif

    // Without section headers only PT_DYNAMIC and DT_GNU_HASH lead to the symbols.
    std::vector<std::byte> bytes(std::filesystem::file_size(where.dli_fname));
    REQUIRE(::pread(fd.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    reinterpret_cast<Elf64_Ehdr *>(bytes.data())->e_shoff = 0;
    const Fd stripped_fd = file_of(bytes);
    const auto stripped = find(open_good(stripped_fd), names);
    REQUIRE(stripped.size() == found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(stripped[i].file_offset == found[i].file_offset);
    }
    ::dlclose(libc);
}

TEST_CASE("sections by name", "[elf_file]") {
    const auto has = [](const ElfImage &image, std::string_view name) {
        const Fd fd = file_of(image.bytes());
        return open_good(fd).has_section(std::span(&name, 1));
    };
    ImageOptions options = small();
    options.strings_before = std::string(".gone\0.go.buildinfo\0", 20);
    ElfImage image(options);
    image.change_header([](auto &h) { h.e_shstrndx = ElfImage::kStrtab; });
    image.change_section(ElfImage::kText, [](auto &s) { s.sh_name = 7; });
    CHECK(has(image, ".go.buildinfo"));
    CHECK_FALSE(has(image, ".go.build"));
    CHECK_FALSE(has(image, ".gone"));
    image.change_section(ElfImage::kText, [](auto &s) { s.sh_name = 0xffffffff; });
    CHECK_FALSE(has(image, ".go.buildinfo"));
    image.change_section(ElfImage::kText, [](auto &s) { s.sh_name = 7; });

    image.change_header([](auto &h) { h.e_shstrndx = SHN_XINDEX; });
    image.change_section(ElfImage::kNull, [](auto &s) { s.sh_link = ElfImage::kStrtab; });
    CHECK(has(image, ".go.buildinfo"));
    image.change_section(ElfImage::kNull, [](auto &s) { s.sh_link = ElfImage::kSections; });
    CHECK_FALSE(has(image, ".go.buildinfo"));
    image.change_section(ElfImage::kNull, [](auto &s) { s.sh_link = ElfImage::kStrtab; });
    image.change_section(ElfImage::kStrtab, [](auto &s) { s.sh_size = 19; });  // cuts the NUL off
    CHECK_FALSE(has(image, ".go.buildinfo"));
    image.change_section(ElfImage::kStrtab, [](auto &s) { s.sh_size = ~std::uint64_t{0}; });
    CHECK_FALSE(has(image, ".go.buildinfo"));
    options.sections = false;
    CHECK_FALSE(has(ElfImage(options), ".go.buildinfo"));

    const Fd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const ElfFile file = open_good(fd);
    CHECK(file.has_section(std::array<std::string_view, 2>{"none", ".text"}));
    CHECK_FALSE(file.has_section(std::array<std::string_view, 2>{".tex", ".note.go.buildid"}));
    CHECK_FALSE(file.has_section({}));
}

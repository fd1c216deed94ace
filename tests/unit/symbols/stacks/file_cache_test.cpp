#include "exporter/symbols/stacks/file_cache.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "exporter/symbols/demangle/function_name.h"
#include "tests/unit/symbols/elf/elf_image.h"
#include "tests/unit/symbols/stacks/proc_mapped_files.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t code = ElfImage::kCodeOffset;

std::vector<std::byte> image_with(const std::string &name) {
    ImageOptions options;
    options.symtab = {{.name = name, .value = ElfImage::kCodeVaddr + 0x100, .size = 0x40},
                      {.name = "_Z6secondv", .value = ElfImage::kCodeVaddr + 0x200, .size = 0x40}};
    const ElfImage image(options);
    return {image.bytes().begin(), image.bytes().end()};
}

// How often a symbol was made a name of.
int named = 0;
std::string counting_name(std::string_view symbol) {
    ++named;
    return function_name(symbol);
}

struct CacheFixture {
    FileCache::Clock::time_point now{1h};
    FileCache cache;

    explicit CacheFixture(std::size_t max_files = 64, std::size_t max_names = 16'384)
        : cache(counting_name,
                {.max_files = max_files, .max_names = max_names, .close_after = 60s, .now = [this] {
                     return now;
                 }}) {
        named = 0;
    }

    std::string name_at(CachedFile &file, std::uint64_t offset) {
        const std::array<std::uint64_t, 1> offsets{offset};
        return cache.functions_at(file, offsets).front().name;
    }
};

struct stat status_of(const Fd &fd) {
    struct stat status{};
    REQUIRE(::fstat(fd.get(), &status) == 0);
    return status;
}

FileId id_of(std::uint64_t inode) {
    return {inode, 0, 0, 0};
}

}  // namespace

TEST_CASE("functions are found once and then known", "[file_cache]") {
    CacheFixture fixture;
    CachedFile &file = fixture.cache.keep(id_of(1), file_of(image_with("_ZN1T5firstEv")));
    const std::vector<std::uint64_t> offsets{code + 0x120, code + 0x200, code + 0x120, 5,
                                             code + 0x150};
    for (int round = 0; round < 2; ++round) {
        const auto functions = fixture.cache.functions_at(file, offsets);
        REQUIRE(functions.size() == 5);
        CHECK(functions[0].name == "T::first");
        CHECK(functions[0].offset == 0x20);
        CHECK(functions[1].name == "second");
        CHECK(functions[1].offset == 0);
        CHECK(functions[2].name == "T::first");
        CHECK(functions[3].name.empty());
        CHECK(functions[4].name.empty());
        CHECK(named == 2);
    }
    CHECK(fixture.cache.names() == 4);
    CHECK(fixture.cache.functions_at(file, {}).empty());
}

TEST_CASE("a file that is not used for a minute is closed", "[file_cache]") {
    CacheFixture fixture;
    Fd first = file_of(image_with("first"));
    Fd second = file_of(image_with("other"));
    const struct stat first_status = status_of(first);
    const struct stat second_status = status_of(second);
    CHECK_FALSE(fixture.cache.next_close());
    fixture.cache.keep(id_of(1), std::move(first));
    CHECK(fixture.cache.next_close() == fixture.now + 60s);
    fixture.now += 30s;
    fixture.cache.keep(id_of(2), std::move(second));
    CHECK(fixture.cache.next_close() == fixture.now + 30s);

    fixture.now += 29s;
    fixture.cache.close_unused();
    REQUIRE(fixture.cache.find(id_of(1)) != nullptr);  // used at 59 s
    CHECK(fixture.cache.next_close() == fixture.now + 31s);
    fixture.now += 31s;
    fixture.cache.close_unused();
    CHECK(descriptors_of(first_status) == 1);
    CHECK(descriptors_of(second_status) == 0);
    CHECK(fixture.cache.find(id_of(2)) == nullptr);
    CHECK(fixture.cache.size() == 1);

    CachedFile *file = fixture.cache.find(id_of(1));
    REQUIRE(file != nullptr);
    CHECK(fixture.name_at(*file, code + 0x100) == "first");
    CHECK(fixture.cache.names() == 1);
    fixture.now += 60s;
    fixture.cache.close_unused();
    CHECK(descriptors_of(first_status) == 0);
    CHECK(fixture.cache.names() == 0);
    CHECK_FALSE(fixture.cache.next_close());
}

TEST_CASE("the least recently used file goes first", "[file_cache]") {
    CacheFixture fixture(2);
    fixture.cache.keep(id_of(1), file_of(image_with("one")));
    fixture.cache.keep(id_of(2), file_of(image_with("two")));
    REQUIRE(fixture.cache.find(id_of(1)) != nullptr);
    fixture.cache.keep(id_of(3), file_of(image_with("three")));
    CHECK(fixture.cache.size() == 2);
    CHECK(fixture.cache.find(id_of(2)) == nullptr);
    CHECK(fixture.cache.find(id_of(1)) != nullptr);
    CHECK(fixture.cache.find(id_of(3)) != nullptr);
}

TEST_CASE("names are bounded, those of unused files go first", "[file_cache]") {
    CacheFixture fixture(64, 3);
    CachedFile &one = fixture.cache.keep(id_of(1), file_of(image_with("one")));
    CachedFile &two = fixture.cache.keep(id_of(2), file_of(image_with("two")));
    CHECK(fixture.name_at(one, code + 0x100) == "one");
    CHECK(fixture.name_at(two, code + 0x100) == "two");
    CHECK(fixture.name_at(two, code + 0x101) == "two");
    CHECK(named == 3);
    CHECK(fixture.name_at(two, code + 0x102) == "two");
    CHECK(fixture.cache.names() == 3);
    CHECK(fixture.name_at(two, code + 0x100) == "two");
    CHECK(named == 4);
    CHECK(fixture.name_at(one, code + 0x100) == "one");  // forgotten, and found again
    CHECK(named == 5);
    CHECK(fixture.cache.names() <= 3);
    // More at once than there is room for: answered all the same.
    const std::vector<std::uint64_t> many{code + 0x100, code + 0x101, code + 0x102, code + 0x103};
    for (const FunctionAt &function : fixture.cache.functions_at(two, many)) {
        CHECK(function.name == "two");
    }
    CHECK(fixture.cache.names() == 0);
}

TEST_CASE("a file that was changed is not the one that was kept", "[file_cache]") {
    CacheFixture fixture;
    Fd fd = file_of(image_with("before"));
    const Fd same(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    CachedFile &file = fixture.cache.keep(id_of(1), std::move(fd));
    CHECK(file.bytes() == static_cast<std::uint64_t>(status_of(same).st_size));
    CHECK(fixture.cache.find(id_of(1), file.bytes()) == &file);
    CHECK(fixture.cache.find(id_of(1), file.bytes() + 1) == nullptr);
    CHECK(fixture.cache.find(id_of(2)) == nullptr);
    CHECK(fixture.cache.find({1, 0, 7, 0}) == nullptr);  // the number was used again

    SECTION("in place") {
        const std::array<timespec, 2> times{{{0, UTIME_OMIT}, {12, 34}}};
        REQUIRE(::futimens(same.get(), times.data()) == 0);
    }
    SECTION("in size") {
        struct stat status = status_of(same);
        REQUIRE(::ftruncate(same.get(), 100) == 0);
        const std::array<timespec, 2> times{status.st_atim, status.st_mtim};
        REQUIRE(::futimens(same.get(), times.data()) == 0);
    }
    CHECK(fixture.cache.find(id_of(1)) == nullptr);
    CHECK(fixture.cache.size() == 0);
    CachedFile &again = fixture.cache.keep(id_of(1), file_of(image_with("after")));
    CHECK(fixture.name_at(again, code + 0x100) == "after");
}

TEST_CASE("a file that is kept twice is there once", "[file_cache]") {
    CacheFixture fixture;
    CachedFile &old = fixture.cache.keep(id_of(1), file_of(image_with("old")));
    CHECK(fixture.name_at(old, code + 0x100) == "old");
    fixture.cache.keep(id_of(1), file_of(image_with("young")));
    CHECK(fixture.cache.size() == 1);
    CHECK(fixture.cache.names() == 0);
    CHECK(fixture.name_at(*fixture.cache.find(id_of(1)), code + 0x100) == "young");
}

TEST_CASE("what is not an ELF file is remembered without being open", "[file_cache]") {
    CacheFixture fixture;
    Fd fd = file_of(std::vector<std::byte>(5000));
    const struct stat status = status_of(fd);
    CachedFile &file = fixture.cache.keep(id_of(1), std::move(fd));
    CHECK(file.elf() == nullptr);
    CHECK(descriptors_of(status) == 0);
    CHECK(fixture.cache.find(id_of(1)) == &file);
    CHECK(fixture.name_at(file, 0x100).empty());
    CHECK(file.read(0, 10).empty());
    fixture.now += 60s;
    fixture.cache.close_unused();
    CHECK(fixture.cache.find(id_of(1)) == nullptr);
}

TEST_CASE("a file whose symbols are damaged is not read again", "[file_cache]") {
    CacheFixture fixture;
    auto bytes = image_with("first");
    Fd fd = file_of(bytes);
    const Fd same(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    CachedFile &file = fixture.cache.keep(id_of(1), std::move(fd));
    REQUIRE(::ftruncate(same.get(), 0x100) == 0);
    CHECK(fixture.name_at(file, code + 0x100).empty());
    REQUIRE(::pwrite(same.get(), bytes.data(), bytes.size(), 0) ==
            static_cast<ssize_t>(bytes.size()));
    CHECK(fixture.name_at(file, code + 0x101).empty());
    CHECK(named == 0);
}

TEST_CASE("the symbols of a file are read once, for all questions", "[file_cache]") {
    CacheFixture fixture;
    const auto bytes = image_with("_ZN1T5firstEv");
    Fd fd = file_of(bytes);
    const Fd same(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    CachedFile &file = fixture.cache.keep(id_of(1), std::move(fd));
    CHECK(fixture.name_at(file, code + 0x100) == "T::first");
    Elf64_Ehdr header{};
    Elf64_Shdr symtab{};
    std::memcpy(&header, bytes.data(), sizeof(header));
    std::memcpy(&symtab, bytes.data() + header.e_shoff + ElfImage::kSymtab * sizeof(symtab),
                sizeof(symtab));
    REQUIRE(symtab.sh_type == SHT_SYMTAB);
    const std::vector<std::byte> zeros(symtab.sh_size);
    REQUIRE(::pwrite(same.get(), zeros.data(), zeros.size(),
                     static_cast<off_t>(symtab.sh_offset)) == static_cast<ssize_t>(zeros.size()));
    CHECK(fixture.name_at(file, code + 0x200) == "second");
}

TEST_CASE("a file with more functions than an index may have has names, too", "[file_cache]") {
    FileCache cache(function_name, {.max_indexed = 2});
    CachedFile &file = cache.keep(id_of(1), file_of(image_with("_ZN1T5firstEv")));
    const std::vector<std::uint64_t> offsets{code + 0x120, code + 0x200};
    const auto functions = cache.functions_at(file, offsets);
    CHECK(functions[0].name == "T::first");
    CHECK(functions[1].name == "second");
}

TEST_CASE("bytes of a cached file end where it ends", "[file_cache]") {
    CacheFixture fixture;
    const auto bytes = image_with("first");
    CachedFile &file = fixture.cache.keep(id_of(1), file_of(bytes));
    CHECK(file.read(1, 3) == "ELF");
    CHECK(file.read(bytes.size() - 2, 10).size() == 2);
    CHECK(file.read(bytes.size(), 10).empty());
    CHECK(file.read(~std::uint64_t{0}, 10).empty());
}

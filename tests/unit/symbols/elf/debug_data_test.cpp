// The symbols that a stripped file has inside, compressed: .gnu_debugdata.
#include <fcntl.h>
#include <lzma.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/symbols/elf/debug_file.h"
#include "exporter/symbols/stacks/file_cache.h"
#include "tests/unit/symbols/elf/elf_questions.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;

namespace {

using Bytes = std::vector<std::byte>;

Bytes xz_of(std::span<const std::byte> bytes, std::uint32_t preset = 6) {
    Bytes out(::lzma_stream_buffer_bound(bytes.size()));
    std::size_t size = 0;
    REQUIRE(::lzma_easy_buffer_encode(preset, LZMA_CHECK_CRC32, nullptr,
                                      reinterpret_cast<const std::uint8_t *>(bytes.data()),
                                      bytes.size(), reinterpret_cast<std::uint8_t *>(out.data()),
                                      &size, out.size()) == LZMA_OK);
    out.resize(size);
    return out;
}

// Of a function that is in no other table.
Bytes hidden_symbols(const std::string &name = "hidden") {
    ImageOptions options;
    options.symtab = {{.name = name, .value = kCode + 0x200, .bind = STB_LOCAL}};
    const ElfImage image(options);
    return {image.bytes().begin(), image.bytes().end()};
}

void append(Bytes &to, std::span<const std::byte> more) {
    to.insert(to.end(), more.begin(), more.end());
}

// A file with one exported function, and this in the section; `size` if it is not all of it.
Bytes file_with_debug_data(std::span<const std::byte> data, std::uint64_t size = 0) {
    ImageOptions options;
    options.dynsym = {{.name = "exported", .value = kCode + 0x100}};
    options.sections = false;
    const ElfImage image(options);
    Bytes bytes(image.bytes().begin(), image.bytes().end());
    constexpr std::string_view names("\0.shstrtab\0.gnu_debugdata\0", 26);
    std::array<Elf64_Shdr, 3> sections{};
    sections[1].sh_name = 1;
    sections[1].sh_type = SHT_STRTAB;
    sections[1].sh_offset = bytes.size();
    sections[1].sh_size = names.size();
    append(bytes, std::as_bytes(std::span(names)));
    sections[2].sh_name = 11;
    sections[2].sh_type = SHT_PROGBITS;
    sections[2].sh_size = size != 0 ? size : data.size();
    Elf64_Ehdr header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    header.e_shoff = bytes.size();
    header.e_shnum = sections.size();
    header.e_shstrndx = 1;
    std::memcpy(bytes.data(), &header, sizeof(header));
    sections[2].sh_offset = bytes.size() + sizeof(sections);
    append(bytes, std::as_bytes(std::span(sections)));
    append(bytes, data);
    return bytes;
}

// The error of a file with this in the section.
Error error_of(std::span<const std::byte> data) {
    const Fd fd = file_of(file_with_debug_data(data));
    const auto found = open_good(fd).debug_data();
    REQUIRE_FALSE(found);
    CHECK_FALSE(found.error().message.empty());
    return found.error();
}

constexpr std::uint64_t at_hidden = ElfImage::kCodeOffset + 0x200;

}  // namespace

TEST_CASE("compressed symbols name functions that no other table has", "[debug_data]") {
    const Fd fd = file_of(file_with_debug_data(xz_of(hidden_symbols())));
    ElfFile file = open_good(fd);
    CHECK_FALSE(file.has_symtab());
    CHECK(names_at(file, {at_hidden}) == std::vector<std::string>{""});
    const auto data = file.debug_data();
    REQUIRE(data);
    file.use_debug_file(*data);
    CHECK(names_at(file, {at_hidden, ElfImage::kCodeOffset + 0x100}) ==
          std::vector<std::string>{"hidden", "exported"});
}

TEST_CASE("compressed symbols are used without a debug file, and not kept", "[debug_data]") {
    const std::string library = GPUSNOOP_STANDIN "/stripped/inside/libstripped.so.1";
    const Fd fd(::open(library.c_str(), O_RDONLY | O_CLOEXEC));
    ElfFile file = open_good(fd);
    DebugFiles files;
    for (int i = 0; i < 2; i++) {
        files.add_to(file, {.inode = 7}, {0, "/nowhere/libstripped.so.1", -1});
        const auto listed = file.list_functions(
            [](std::string_view name) { return name.starts_with("stripped_"); });
        REQUIRE(listed);
        REQUIRE(listed->size() == 3);
        CHECK((*listed)[1].name == "stripped_hidden");
        CHECK((*listed)[1].in_debug_file);
        REQUIRE(file.debug_file() != nullptr);
        CHECK(file.debug_file()->is_in_memory);
        file.use_debug_file(nullptr);
    }
}

TEST_CASE("compressed symbols that are none, or too many, are an error", "[debug_data]") {
    const Bytes good = xz_of(hidden_symbols());
    const Fd empty = file_of(ElfImage(small()).bytes());
    CHECK(open_good(empty).debug_data().error().code == ENOENT);
    CHECK(error_of({}).code == 0);
    CHECK(error_of(Bytes(4096)).code == 0);
    for (std::size_t size = 1; size < good.size(); size += 7) {
        CHECK(error_of(std::span(good).first(size)).code == 0);
    }
    const std::string text = "no ELF file";
    (void)error_of(xz_of(std::as_bytes(std::span(text))));
    (void)error_of(xz_of({}));
    Bytes of_arm = hidden_symbols();
    const Elf64_Half arm = EM_AARCH64;
    std::memcpy(of_arm.data() + offsetof(Elf64_Ehdr, e_machine), &arm, sizeof(arm));
    (void)error_of(xz_of(of_arm));
    const ElfImage without(ImageOptions{.symtab = {}, .dynsym = {}, .sections = false});
    (void)error_of(xz_of(without.bytes()));
    SECTION("a bomb") {
        const Bytes bomb = xz_of(Bytes(ElfFile::max_debug_data + 1));
        CHECK(bomb.size() < 64 * 1024);
        CHECK(error_of(bomb).code == EFBIG);
    }
    SECTION("a dictionary of 1 GiB") {
        Bytes greedy = good;
        // The header of the first block ends with its filter: LZMA2, with one byte of properties.
        auto *const block = reinterpret_cast<std::uint8_t *>(greedy.data()) + 12;
        constexpr std::array<std::uint8_t, 2> filter = {0x21, 1};
        auto *const found = std::search(block, block + 16, filter.begin(), filter.end());
        REQUIRE(found != block + 16);
        found[2] = 36;
        const std::size_t header = (std::size_t{block[0]} + 1) * 4 - 4;
        const std::uint32_t crc = ::lzma_crc32(block, header, 0);
        std::memcpy(block + header, &crc, sizeof(crc));
        CHECK(error_of(greedy).code == EFBIG);
    }
    SECTION("a huge sparse section") {
        const Fd fd = file_of(file_with_debug_data(good, std::uint64_t{1} << 40));
        REQUIRE(::ftruncate(fd.get(), std::int64_t{1} << 41) == 0);
        const auto found = open_good(fd).debug_data();
        REQUIRE_FALSE(found);
        CHECK(found.error().code == EFBIG);
    }
    SECTION("a section past the end") {
        const Fd fd = file_of(file_with_debug_data(good, good.size() + 1));
        CHECK_FALSE(open_good(fd).debug_data());
    }
}

TEST_CASE("decompressing symbols meets the deadline", "[debug_data]") {
    std::mt19937 random(7);
    Bytes noise(4 << 20);
    for (std::byte &byte : noise) {
        byte = static_cast<std::byte>(random() % 16);  // which takes time to decompress
    }
    const Fd fd = file_of(file_with_debug_data(xz_of(noise, 0)));
    const auto file = ElfFile::open(fd.get(), {.deadline = std::chrono::milliseconds(10)});
    if (!file) {  // on a busy machine
        CHECK(file.error().code == ETIMEDOUT);
        return;
    }
    const auto found = file->debug_data();
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ETIMEDOUT);
}

TEST_CASE("damaged compressed symbols are no trap", "[debug_data]") {
    const Bytes good = xz_of(hidden_symbols());
    const Bytes symbols = hidden_symbols();
    std::mt19937 random(7);
    int used = 0;
    for (int i = 0; i < 1000; i++) {
        Bytes data = i % 2 == 0 ? good : symbols;
        for (unsigned times = 1 + random() % 8; times > 0; times--) {
            data[random() % data.size()] = static_cast<std::byte>(random());
        }
        const Fd fd = file_of(file_with_debug_data(i % 2 == 0 ? data : xz_of(data)));
        ElfFile file = open_good(fd);
        const auto found = file.debug_data();
        if (!found) {
            continue;
        }
        used++;
        file.use_debug_file(*found);
        const std::array<std::uint64_t, 2> offsets{at_hidden, 0x1000};
        (void)file.functions_at(offsets);
        (void)file.list_functions([](auto) { return true; });
    }
    CHECK(used > 100);
}

TEST_CASE("the cache has the compressed symbols of few files in memory", "[debug_data]") {
    FileCache::Settings settings;
    settings.max_debug_data = hidden_symbols().size();
    FileCache cache([](std::string_view symbol) { return std::string(symbol); }, settings);
    const auto keep = [&](std::uint64_t inode, const std::string &name) {
        cache.keep({.inode = inode}, file_of(file_with_debug_data(xz_of(hidden_symbols(name)))));
    };
    keep(1, "one");
    keep(2, "two");
    const std::array<std::uint64_t, 1> hidden{at_hidden};
    const std::array<std::uint64_t, 1> behind{at_hidden + 4};
    const auto name = [&](std::uint64_t inode, const auto &offsets) {
        CachedFile *file = cache.find({.inode = inode});
        REQUIRE(file != nullptr);
        return cache.functions_at(*file, offsets).front().name;
    };
    const auto in_memory = [&](std::uint64_t inode) {
        return cache.find({.inode = inode})->elf()->debug_file() != nullptr;
    };
    CHECK(name(1, hidden) == "one");
    CHECK(in_memory(1));
    CHECK(name(2, hidden) == "two");
    CHECK(in_memory(2));
    CHECK_FALSE(in_memory(1));
    CHECK(name(1, behind) == "one");
    CHECK_FALSE(in_memory(2));
    CHECK(name(2, behind) == "two");
}

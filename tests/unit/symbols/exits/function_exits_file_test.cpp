// The exits of functions in files: their parts, their offsets, and what a compiler really makes.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/symbols/exits/function_exits.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/symbols/elf/elf_image.h"
#include "tests/unit/symbols/elf/elf_questions.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;

namespace {

constexpr std::uint64_t kAt = ElfImage::kCodeOffset;

template <std::size_t kCount>
void put(ElfImage &image, std::uint64_t at, const std::array<std::uint8_t, kCount> &bytes) {
    image.write(kAt + at, bytes);
}

Result<FunctionExits> exits_in(const ElfImage &image, std::string_view name) {
    const Fd fd = file_of(image.bytes());
    const ElfFile file = open_good(fd);
    const auto functions = find(file, {name});
    REQUIRE(functions.size() == 1);
    const auto all = find_exits(file, fd.get(), functions);
    REQUIRE(all.size() == 1);
    return all.front();
}

FunctionExits good_exits_in(const ElfImage &image, std::string_view name) {
    const auto exits = exits_in(image, name);
    INFO((exits ? "" : exits.error().message));
    REQUIRE(exits);
    return *exits;
}

using FileExits = std::vector<FunctionExit>;

// A function of 8 bytes at 0x100 that jumps to 0x200 if %edi is 0, and the part there, which
// returns, or goes to a third at 0x300.
ElfImage split(std::string_view second, std::string_view third = "third") {
    ImageOptions options;
    options.symtab = {
        {.name = "f", .value = kCode + 0x100, .size = 9},
        {.name = std::string(second), .value = kCode + 0x200, .size = 8, .bind = STB_LOCAL},
        {.name = std::string(third), .value = kCode + 0x300, .size = 6, .bind = STB_LOCAL},
    };
    ElfImage image(options);
    // test %edi,%edi; je 0x200; ret
    put<9>(image, 0x100, {0x85, 0xff, 0x0f, 0x84, 0xf8, 0, 0, 0, 0xc3});
    // jb 0x300; push; ret
    put<8>(image, 0x200, {0x0f, 0x82, 0xfa, 0, 0, 0, 0x50, 0xc3});
    // ret; jmp 0x100
    put<6>(image, 0x300, {0xc3, 0xe9, 0xfa, 0xfd, 0xff, 0xff});
    return image;
}

}  // namespace

TEST_CASE("a split part belongs to the function", "[function_exits]") {
    for (const auto *name : {"f.cold", "f.cold.1", "f.part.0", "g.part.12"}) {
        INFO(name);
        const FunctionExits exits = good_exits_in(split(name), "f");
        CHECK(exits.exits == FileExits{{kAt + 0x108, ExitKind::return_},
                                       {kAt + 0x200, ExitKind::conditional_tail_call},
                                       {kAt + 0x207, ExitKind::return_}});
        CHECK_FALSE(exits.jumps_to_entry);
    }
    for (const auto *name : {"f2", "f.cold.", "f.cold.x", "f.colder", "f.part", "f.constprop.0"}) {
        INFO(name);
        CHECK(good_exits_in(split(name), "f").exits ==
              FileExits{{kAt + 0x102, ExitKind::conditional_tail_call},
                        {kAt + 0x108, ExitKind::return_}});
    }
}

TEST_CASE("a part of a part, and a jump back to the entry", "[function_exits]") {
    const FunctionExits exits = good_exits_in(split("f.part.0", "f.part.0.cold"), "f");
    CHECK(exits.exits == FileExits{{kAt + 0x108, ExitKind::return_},
                                   {kAt + 0x207, ExitKind::return_},
                                   {kAt + 0x300, ExitKind::return_}});
    CHECK(exits.jumps_to_entry);
}

TEST_CASE("a part that is not understood is an error of the function", "[function_exits]") {
    ElfImage image = split("f.cold");
    put<1>(image, 0x206, {0x06});
    const auto exits = exits_in(image, "f");
    REQUIRE_FALSE(exits);
    CHECK(exits.error().message == "there is no known instruction at byte 6 of the function");
}

TEST_CASE("each function of a file fails for itself", "[function_exits]") {
    ImageOptions options;
    options.symtab = {{.name = "unsized", .value = kCode + 0x100, .size = 0},
                      {.name = "good", .value = kCode + 0x200, .size = 1},
                      {.name = "endless", .value = kCode + 0x300, .size = ~std::uint64_t{0}},
                      {.name = "past_the_end", .value = kCode + 0xfff, .size = 2}};
    ElfImage image(options);
    put<1>(image, 0x200, {0xc3});
    const Fd fd = file_of(image.bytes());
    const ElfFile file = open_good(fd);
    const auto functions = find(file, {"unsized", "good", "endless", "past_the_end"});
    REQUIRE(functions.size() == 4);
    const auto all = find_exits(file, fd.get(), functions);
    REQUIRE(all.size() == 4);
    CHECK(all[0].error().message == "the size of the function is not known");
    CHECK(all[1]->exits == FileExits{{kAt + 0x200, ExitKind::return_}});
    CHECK(all[2].error().message == "the function is longer than 1048576 bytes");
    CHECK(all[3].error().message == "the function is not in the file as a whole");

    ElfLimits limits;
    limits.max_bytes_read = 0;
    const auto none = find_exits(file, fd.get(), functions, limits);
    CHECK(none[1].error().code == EFBIG);
    CHECK(find_exits(file, -1, functions).at(1).error().code == EBADF);
    CHECK(find_exits(file, fd.get(), {}).empty());
}

TEST_CASE("the functions of a file have so many exits in all", "[function_exits]") {
    // They overlap, so that the file is small.
    constexpr std::size_t exits = 4'000;
    constexpr std::size_t most = max_all_exits / exits;
    ImageOptions options;
    std::vector<std::string> names;
    for (std::size_t i = 0; i <= most; ++i) {
        names.push_back("f" + std::to_string(100 + i));
        options.symtab.push_back({.name = names.back(), .value = kCode + i, .size = exits});
    }
    ElfImage image(options);
    std::array<std::uint8_t, exits + most> code{};
    code.fill(0xc3);
    put(image, 0, code);
    const Fd fd = file_of(image.bytes());
    const ElfFile file = open_good(fd);
    const std::vector<std::string_view> wanted(names.begin(), names.end());
    const auto functions = file.find_functions(wanted);
    REQUIRE(functions);
    const auto all = find_exits(file, fd.get(), *functions);
    REQUIRE(all.size() == most + 1);
    for (std::size_t i = 0; i < most; ++i) {
        CHECK(all[i]->exits.size() == exits);
    }
    REQUIRE_FALSE(all[most]);
    CHECK(all[most].error().message ==
          "the wanted functions of the file have more than 65536 exits");
}

TEST_CASE("the machine is the file's", "[function_exits]") {
    ImageOptions options;
    options.symtab = {{.name = "f", .value = kCode + 0x100, .size = 4}};
    ElfImage image(options);
    image.change_header([](auto &header) { header.e_machine = EM_AARCH64; });
    put<4>(image, 0x100, {0xc0, 0x03, 0x5f, 0xd6});  // ret
    CHECK(good_exits_in(image, "f").exits == FileExits{{kAt + 0x100, ExitKind::return_}});
}

// What the compiler makes of these depends on its options; not that they return.
extern "C" {
[[gnu::noinline, gnu::used]] int exits_test_returns(int value) {
    if (value < 0) {
        return -1;
    }
    for (int i = 2; i < value; ++i) {
        if (value % i == 0) {
            return i;
        }
    }
    return value;
}

[[gnu::noinline, gnu::used]] int exits_test_switch(int value, volatile int *out) {
    switch (value) {
        case 0:
            return *out;
        case 1:
            *out = 5;
            return 7;
        case 2:
            *out = *out * 3;
            return *out / 7;
        case 3:
            return *out + 9;
        case 4:
            *out = 17;
            return *out % 13;
        case 5:
            return exits_test_returns(*out);
        case 6:
            return *out - 11;
        default:
            return value;
    }
}

[[gnu::noinline, gnu::used]] int exits_test_throws(int value) {
    if (value == 0) {
        throw std::runtime_error("zero");
    }
    try {
        return exits_test_throws(value - 1);
    } catch (const std::exception &) {
        return value;
    }
}
}

TEST_CASE("functions that a compiler made", "[function_exits]") {
    int out = 1;
    CHECK(exits_test_switch(5, &out) + exits_test_throws(2) == 2);
    const Fd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const ElfFile file = open_good(fd);
    const auto functions =
        find(file, {"exits_test_returns", "exits_test_switch", "exits_test_throws"});
    REQUIRE(functions.size() == 3);
    for (const auto &exits : find_exits(file, fd.get(), functions)) {
        INFO((exits ? "" : exits.error().message));
        REQUIRE(exits);
        CHECK(exits->has(ExitKind::return_));
        CHECK((is_sanitized || !exits->has(ExitKind::maybe_tail_call)));
        CHECK_FALSE(exits->has(ExitKind::conditional_tail_call));
        for (const FunctionExit &exit : exits->exits) {
            if (exit.kind == ExitKind::return_ && file.machine() == EM_X86_64) {
                std::uint8_t byte = 0;
                REQUIRE(::pread(fd.get(), &byte, 1, static_cast<off_t>(exit.address)) == 1);
                CHECK((byte == 0xc3 || byte == 0xf3));
            }
        }
    }
}

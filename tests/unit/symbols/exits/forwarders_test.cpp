// Which functions only jump to another one: in code that was assembled by hand, and in files.
#include "exporter/symbols/exits/function_exits.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <initializer_list>
#include <optional>
#include <vector>

#include "tests/unit/symbols/elf/elf_image.h"
#include "tests/unit/symbols/elf/elf_questions.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;

namespace {

std::optional<std::uint64_t> target_of(std::initializer_list<int> values,
                                       std::uint16_t machine = EM_X86_64) {
    std::vector<std::byte> bytes;
    for (const int value : values) {
        bytes.push_back(static_cast<std::byte>(value));
    }
    return forwarded_to(bytes, 0x1000, machine);
}

}  // namespace

TEST_CASE("a function that only jumps on has the target of its jump", "[forwarders]") {
    CHECK(target_of({0xe9, 0x10, 0, 0, 0}) == 0x1015U);                             // jmp
    CHECK(target_of({0xe9, 0xf0, 0xff, 0xff, 0xff}) == 0xff5U);                     // back
    CHECK(target_of({0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 0x10, 0, 0, 0}) == 0x1019U);     // endbr64; jmp
    CHECK(target_of({0x55, 0x48, 0x89, 0xe5, 0x5d, 0xe9, 0, 1, 0, 0}) == 0x110aU);  // a frame
    CHECK(target_of({0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x5d, 0xe9, 0, 1, 0, 0}) ==
          0x110eU);
    CHECK(target_of({0x04, 0, 0, 0x14}, EM_AARCH64) == 0x1010U);                       // b
    CHECK(target_of({0xff, 0xff, 0xff, 0x17}, EM_AARCH64) == 0xffcU);                  // back
    CHECK(target_of({0x5f, 0x24, 0x03, 0xd5, 2, 0, 0, 0x14}, EM_AARCH64) == 0x100cU);  // bti c; b
}

TEST_CASE("a function that does more than to jump on has no target", "[forwarders]") {
    CHECK_FALSE(target_of({}));
    CHECK_FALSE(target_of({0xe9, 0x10, 0, 0}));                          // cut
    CHECK_FALSE(target_of({0xe8, 0x10, 0, 0, 0}));                       // a call
    CHECK_FALSE(target_of({0x31, 0xf6, 0xe9, 0x10, 0, 0, 0}));           // xor %esi,%esi; jmp
    CHECK_FALSE(target_of({0x55, 0xe9, 0x10, 0, 0, 0}));                 // a frame that stays
    CHECK_FALSE(target_of({0x55, 0x48, 0x89, 0xe5, 0xe9, 0, 1, 0, 0}));  // here, too
    CHECK_FALSE(target_of({0xff, 0x25, 0, 0, 0, 0}));                    // a linkage table
    CHECK_FALSE(target_of({0x0f, 0x84, 0x10, 0, 0, 0}));                 // a condition
    CHECK_FALSE(target_of({}, EM_AARCH64));
    CHECK_FALSE(target_of({0x04, 0, 0, 0x94}, EM_AARCH64));  // bl
    CHECK_FALSE(target_of({0x40, 0, 0, 0x54}, EM_AARCH64));  // b.eq
    CHECK_FALSE(target_of({0xe9, 0x10, 0, 0, 0}, EM_AARCH64));
}

TEST_CASE("a jump counts if it goes to the beginning of another function that is asked for",
          "[forwarders]") {
    // f: jmp g. g: ret. h: jmp into g. i: jmp to itself.
    constexpr std::array<std::uint8_t, 32> kCodeBytes = {
        0xe9, 0x03, 0,    0,    0,    0x90, 0x90, 0x90,   // f at 0
        0xc3, 0x90, 0x90, 0x90, 0,    0,    0,    0,      // g at 8
        0xe9, 0xf4, 0xff, 0xff, 0xff, 0x90, 0x90, 0x90,   // h at 16, to 9
        0xe9, 0xfb, 0xff, 0xff, 0xff, 0x90, 0x90, 0x90};  // i at 24
    ImageOptions options;
    for (int i = 0; i < 4; ++i) {
        options.symtab.push_back({.name = std::string(1, static_cast<char>('f' + i)),
                                  .value = kCode + 0x100 + 8 * static_cast<std::uint64_t>(i),
                                  .size = 8});
    }
    ElfImage image(options);
    image.write(ElfImage::kCodeOffset + 0x100, kCodeBytes);
    const Fd fd = file_of(image.bytes());
    const ElfFile file = open_good(fd);

    const auto all = find(file, {"f", "g", "h", "i"});
    REQUIRE(all.size() == 4);
    const auto targets = find_forwarders(file, fd.get(), all);
    CHECK(targets[0] == all[1].file_offset);
    CHECK_FALSE(targets[1]);
    CHECK_FALSE(targets[2]);
    CHECK_FALSE(targets[3]);
    CHECK_FALSE(find_forwarders(file, fd.get(), find(file, {"f"})).front());
}

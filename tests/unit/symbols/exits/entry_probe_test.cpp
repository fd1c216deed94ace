// Where probes on entries are put: in code that was assembled by hand, and in files.
#include "exporter/symbols/exits/entry_probe.h"

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

std::optional<std::uint64_t> emulated_in(std::initializer_list<int> values) {
    std::vector<std::byte> bytes;
    for (const int value : values) {
        bytes.push_back(static_cast<std::byte>(value));
    }
    return first_emulated(bytes);
}

constexpr std::uint64_t kEntry = ElfImage::kCodeOffset;

// endbr64; push %rbx; pop %rbx; ret
constexpr std::array<std::uint8_t, 7> kMarked = {0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x5b, 0xc3};

template <std::size_t kCount>
std::vector<EntryProbe> probes_in(const std::array<std::uint8_t, kCount> &code,
                                  std::vector<ImageSymbol> symbols,
                                  std::initializer_list<std::string_view> names,
                                  std::uint16_t machine = EM_X86_64) {
    ImageOptions options;
    options.symtab = std::move(symbols);
    ElfImage image(options);
    image.change_header([&](auto &header) { header.e_machine = machine; });
    image.write(kEntry + 0x100, code);
    const Fd fd = file_of(image.bytes());
    const ElfFile file = open_good(fd);
    return find_entry_probes(file, fd.get(), find(file, names));
}

ImageSymbol f_of(std::uint64_t size) {
    return {.name = "f", .value = kCode + 0x100, .size = size};
}

}  // namespace

TEST_CASE("the first instruction that the kernel emulates is found", "[entry_probe]") {
    CHECK(emulated_in({0x55}) == 0U);                                // push %rbp
    CHECK(emulated_in({0x41, 0x57}) == 0U);                          // push %r15
    CHECK(emulated_in({0x50}) == 0U);                                // push %rax
    CHECK(emulated_in({0x90}) == 0U);                                // nop
    CHECK(emulated_in({0xf3, 0x0f, 0x1e, 0xfa, 0x55}) == 4U);        // endbr64; push %rbp
    CHECK(emulated_in({0xf3, 0x0f, 0x1e, 0xfa, 0x50}) == 4U);        // endbr64; push %rax
    CHECK(emulated_in({0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x54}) == 4U);  // endbr64; push %r12
    CHECK(emulated_in({0x48, 0x89, 0xf8, 0x53}) == 3U);              // mov %rdi,%rax; push %rbx
    CHECK(emulated_in({0x48, 0x8d, 0x44, 0x24, 0x08, 0x41, 0x55}) == 5U);  // lea 8(%rsp),%rax; push
    CHECK(emulated_in({0x31, 0xc0, 0x55}) == 2U);                    // xor %eax,%eax; push %rbp
    CHECK(emulated_in({0x48, 0x85, 0xff, 0x53}) == 3U);              // test %rdi,%rdi; push %rbx
    CHECK(emulated_in({0x48, 0x8b, 0x05, 1, 2, 0, 0, 0x53}) == 7U);  // mov 0x201(%rip),%rax
}

TEST_CASE("no instruction is passed that changes what probes read", "[entry_probe]") {
    CHECK_FALSE(emulated_in({}));
    CHECK_FALSE(emulated_in({0xf3, 0x0f, 0x1e}));                          // cut
    CHECK_FALSE(emulated_in({0xf3, 0x0f, 0x1e, 0xfa}));                    // nothing behind it
    CHECK_FALSE(emulated_in({0x48, 0x83, 0xec, 0x18, 0x53}));              // sub $24,%rsp
    CHECK_FALSE(emulated_in({0x48, 0x89, 0xe5, 0x53}));                    // mov %rsp,%rbp
    CHECK_FALSE(emulated_in({0x89, 0xd1, 0x53}));                          // mov %edx,%ecx
    CHECK_FALSE(emulated_in({0x48, 0x89, 0xfe, 0x53}));                    // mov %rdi,%rsi
    CHECK_FALSE(emulated_in({0x48, 0x89, 0x7c, 0x24, 0xf8, 0x53}));        // mov %rdi,-8(%rsp)
    CHECK_FALSE(emulated_in({0x31, 0xff, 0x53}));                          // xor %edi,%edi
    CHECK_FALSE(emulated_in({0x48, 0x85, 0xff, 0x74, 0x10, 0x53}));        // test; je
    CHECK_FALSE(emulated_in({0xc3, 0x53}));                                // ret
    CHECK_FALSE(emulated_in({0xf3, 0x0f, 0x1e, 0xfa, 0x66, 0x50}));        // push %ax
    CHECK_FALSE(emulated_in({0xf3, 0x0f, 0x1e, 0xfa, 0x6a, 0x01}));        // push $1
    CHECK_FALSE(emulated_in({0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x75, 0x08}));  // push 8(%rbp)
    // Behind a move, only the making of a frame.
    CHECK_FALSE(emulated_in({0x48, 0x89, 0xf8, 0x50}));  // mov %rdi,%rax; push %rax
    CHECK_FALSE(emulated_in({0x48, 0x89, 0xf8, 0x90}));  // mov %rdi,%rax; nop
}

TEST_CASE("a probe is put behind ENDBR64, and other first instructions are expensive",
          "[entry_probe]") {
    using Probes = std::vector<EntryProbe>;
    CHECK(probes_in(kMarked, {f_of(7)}, {"f"}) == Probes{{kEntry + 0x104, false}});
    constexpr std::array<std::uint8_t, 1> returns = {0xc3};
    CHECK(probes_in(returns, {f_of(1)}, {"f"}) == Probes{{kEntry + 0x100, true}});
    constexpr std::array<std::uint8_t, 3> pushes = {0x53, 0x5b, 0xc3};
    CHECK(probes_in(pushes, {f_of(3)}, {"f"}) == Probes{{kEntry + 0x100, false}});
    CHECK(probes_in(kMarked, {f_of(7)}, {"f"}, EM_AARCH64) == Probes{{kEntry + 0x100, false}});
}

TEST_CASE("a probe stays where jumps go behind the first instruction", "[entry_probe]") {
    using Probes = std::vector<EntryProbe>;
    // endbr64; push %rbx; pop %rbx; je to the push; ret
    constexpr std::array<std::uint8_t, 9> loops = {0xf3, 0x0f, 0x1e, 0xfa, 0x53,
                                                   0x5b, 0x74, 0xfc, 0xc3};
    CHECK(probes_in(loops, {f_of(9)}, {"f"}) == Probes{{kEntry + 0x100, true}});
    // The same to the first instruction: the probe runs as often there as behind it.
    constexpr std::array<std::uint8_t, 9> again = {0xf3, 0x0f, 0x1e, 0xfa, 0x53,
                                                   0x5b, 0x74, 0xf8, 0xc3};
    CHECK(probes_in(again, {f_of(9)}, {"f"}) == Probes{{kEntry + 0x104, false}});
    // And behind the push.
    constexpr std::array<std::uint8_t, 9> inner = {0xf3, 0x0f, 0x1e, 0xfa, 0x53,
                                                   0x5b, 0x74, 0xfd, 0xc3};
    CHECK(probes_in(inner, {f_of(9)}, {"f"}) == Probes{{kEntry + 0x104, false}});
}

TEST_CASE("a jump of a part that was split off counts, too", "[entry_probe]") {
    using Probes = std::vector<EntryProbe>;
    // endbr64; push %rbx; jne to the part; pop; ret; (the part:) jmp to the push
    constexpr std::array<std::uint8_t, 14> split = {0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x75, 0x02,
                                                    0x5b, 0xc3, 0xe9, 0xf6, 0xff, 0xff, 0xff};
    const ImageSymbol part = {
        .name = "f.cold", .value = kCode + 0x109, .size = 5, .bind = STB_LOCAL};
    CHECK(probes_in(split, {f_of(9), part}, {"f"}) == Probes{{kEntry + 0x100, true}});
}

TEST_CASE("a probe stays where its function is not known, or another one begins", "[entry_probe]") {
    using Probes = std::vector<EntryProbe>;
    // Its end is in the middle of an instruction, or its size is not known.
    CHECK(probes_in(kMarked, {f_of(6)}, {"f"}) == Probes{{kEntry + 0x100, true}});
    CHECK(probes_in(kMarked, {f_of(0)}, {"f"}) == Probes{{kEntry + 0x100, false}});
    const ImageSymbol inside = {.name = "g", .value = kCode + 0x104, .size = 3};
    CHECK(probes_in(kMarked, {f_of(7), inside}, {"f", "g"}) ==
          Probes{{kEntry + 0x100, true}, {kEntry + 0x104, false}});
}

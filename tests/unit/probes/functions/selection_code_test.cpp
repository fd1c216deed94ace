// How the calls of the functions that are selected end: in made code, in compiled code, and in
// files that were damaged at random.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <set>
#include <stdexcept>

#include "exporter/probes/functions/select/candidates.h"
#include "exporter/probes/functions/select/selection.h"
#include "tests/unit/probes/functions/questions.h"
#include "tests/unit/symbols/elf/elf_questions.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace gpusnoop::test;
using probes::FunctionGroups;

namespace {

template <std::size_t kCount>
void put(ElfImage &image, std::uint64_t at, const std::array<std::uint8_t, kCount> &bytes) {
    image.write(ElfImage::kCodeOffset + at, bytes);
}

ImageOptions some_code() {
    ImageOptions options;
    options.symtab = {{.name = "c_function", .value = kCode + 0x100, .size = 2},
                      {.name = "_Z7returnsv", .value = kCode + 0x100, .size = 2},
                      {.name = "_Z5loopsv", .value = kCode + 0x200, .size = 5},
                      {.name = "_Z5maybev", .value = kCode + 0x300, .size = 8},
                      {.name = "_Z7unsizedv", .value = kCode + 0x400, .size = 0},
                      {.name = "_Z5emptyv", .value = kCode + 0x500, .size = 1},
                      {.name = "_Z7foreverv", .value = kCode + 0x600, .size = 3},
                      {.name = "dlsym", .value = kCode + 0x700, .size = 2},
                      {.name = "_RNvC1a1b", .value = kCode + 0x800, .size = 2},
                      {.name = "main.main", .value = kCode + 0x900, .size = 6},
                      {.name = "memcpy", .value = kCode + 0xa00, .size = 2}};
    return options;
}

ElfImage made_code(const ImageOptions &options = some_code()) {
    ElfImage image(options);
    for (const std::uint64_t at : {0x100, 0x700, 0x800, 0xa00}) {
        put<2>(image, at, {0x90, 0xc3});  // nop; ret
    }
    put<5>(image, 0x200, {0x90, 0xc3, 0x90, 0xeb, 0xfb});           // nop; ret; nop; jmp 0x200
    put<8>(image, 0x300, {0x90, 0x0f, 0x84, 0xf8, 0, 0, 0, 0xc3});  // nop; je 0x3ff; ret
    put<1>(image, 0x500, {0xc3});
    put<3>(image, 0x600, {0x90, 0xeb, 0xfe});        // nop; jmp to itself
    put<6>(image, 0x900, {0x90, 0xe9, 0, 1, 0, 0});  // nop; jmp 0xa06
    return image;
}

}  // namespace

TEST_CASE("selection: how calls end", "[func_selection]") {
    const ElfImage image = made_code();
    const Selection selection = select(image, {{"g", group({"*"})}});
    CHECK(shown(selection) == Lines{"g _RNvC1a1b 800 exits 801", "g dlsym 700 exits 701",
                                    "g empty 500 none", "g forever 600 none",
                                    "g loops 200 exits 201 loop", "g main.main 900 exits 901",
                                    "g maybe 300 none", "g memcpy a00 return",
                                    "g returns 100 exits 101", "g unsized 400 none"});
    const std::string so = ", so its calls are counted at entry only";
    CHECK(selection.problems ==
          Lines{"libx.so: maybe: the function has a conditional jump that may leave it" + so,
                "libx.so: unsized: the size of the function is not known" + so,
                "libx.so: empty: the first instruction of the function may leave it" + so,
                "libx.so: forever: the function has no instruction that returns" + so});
    CHECK(shown(select(image, {{"g", group({"_Z7*", "c_function"})}})).front() ==
          "g c_function 100 exits 101");
    // With no C++ name of it in sight, it is a C function.
    CHECK(shown(select(image, {{"g", group({"c_function"})}})) == Lines{"g c_function 100 return"});

    // Where return probes are not wanted, C functions are as the others.
    FunctionGroups exits{{"g", group({"c_function", "memcpy"})}};
    exits["g"].options.endings = ebpf::Endings::exits;
    CHECK(shown(select(image, exits)) ==
          Lines{"g c_function 100 exits 101", "g memcpy a00 exits a01"});
    exits["g"].functions[1].overrides.endings = ebpf::Endings::automatic;
    CHECK(shown(select(image, exits)) ==
          Lines{"g c_function 100 exits 101", "g memcpy a00 return"});

    FunctionGroups groups{{"g", group({"*"})}};
    groups["g"].functions[0].overrides.entry_only = true;
    const Selection entries = select(image, groups);
    CHECK(entries.functions.size() == 10);
    CHECK(entries.problems.empty());
    CHECK(std::all_of(entries.functions.begin(), entries.functions.end(),
                      [](const auto &f) { return f.ending == ExitStrategy::none; }));
}

TEST_CASE("selection: a function that only jumps to C functions is followed to their end",
          "[func_selection]") {
    ImageOptions options;
    options.symtab = {{.name = "c_function", .value = kCode + 0x100, .size = 2},
                      {.name = "_Z3cppv", .value = kCode + 0x110, .size = 2},
                      {.name = "_Z4thinv", .value = kCode + 0x200, .size = 6},
                      {.name = "_Z6eitheri", .value = kCode + 0x300, .size = 8},
                      {.name = "_Z6to_cppv", .value = kCode + 0x400, .size = 6},
                      {.name = "_Z5callsv", .value = kCode + 0x500, .size = 10},
                      {.name = "_Z6insidev", .value = kCode + 0x600, .size = 6},
                      {.name = "_Z8indirectv", .value = kCode + 0x700, .size = 3}};
    ElfImage image(options);
    put<2>(image, 0x100, {0x90, 0xc3});
    put<2>(image, 0x110, {0x90, 0xc3});
    put<6>(image, 0x200, {0x90, 0xe9, 0xfa, 0xfe, 0xff, 0xff});              // nop; jmp 0x100
    put<8>(image, 0x300, {0x90, 0x0f, 0x84, 0xf9, 0xfd, 0xff, 0xff, 0xc3});  // nop; je 0x100; ret
    put<6>(image, 0x400, {0x90, 0xe9, 0x0a, 0xfd, 0xff, 0xff});              // nop; jmp 0x110
    put<10>(image, 0x500,  // call 0x100; jmp 0x100
            {0xe8, 0xfb, 0xfb, 0xff, 0xff, 0xe9, 0xf6, 0xfb, 0xff, 0xff});
    put<6>(image, 0x600, {0x90, 0xe9, 0xfb, 0xfa, 0xff, 0xff});  // nop; jmp 0x101
    put<3>(image, 0x700, {0x90, 0xff, 0xe0});                    // nop; jmp *%rax
    FunctionGroups groups{{"g", group({"_Z*"})}};
    CHECK(shown(select(image, groups)) == Lines{"g calls 500 exits 505", "g cpp 110 exits 111",
                                                "g either 300 return", "g indirect 700 exits 701",
                                                "g inside 600 exits 601", "g thin 200 return",
                                                "g to_cpp 400 exits 401"});
    groups["g"].options.endings = ebpf::Endings::exits;
    CHECK(shown(select(image, groups)).at(5) == "g thin 200 exits 201");
}

TEST_CASE("selection: what was made with Go is counted at its entry", "[func_selection]") {
    ImageOptions options = some_code();
    options.strings_before = std::string(".note.go.buildid\0", 17);
    ElfImage image = made_code(options);
    image.change_header([](auto &h) { h.e_shstrndx = ElfImage::kStrtab; });
    image.change_section(ElfImage::kText, [](auto &s) { s.sh_name = 1; });
    const Selection selection = select(image, {{"g", group({"mem*", "main*"})}});
    CHECK(shown(selection) == Lines{"g main.main 900 none", "g memcpy a00 none"});
    CHECK(selection.problems ==
          Lines{"libx.so: it is made with Go, so calls are counted at entry only"});
    FunctionGroups groups{{"g", group({"mem*"})}};
    groups["g"].options.entry_only = true;
    CHECK(select(image, groups).problems.empty());
}

TEST_CASE(
    "selection: C functions of a file with Rust or another unwinding language have no return probe",
    "[func_selection]") {
    const FunctionGroups groups{{"g", group({"memcpy", "c_function"})}};
    const Lines exits{"g c_function 100 exits 101", "g memcpy a00 exits a01"};
    CHECK(shown(select(made_code(), groups)) ==
          Lines{"g c_function 100 return", "g memcpy a00 return"});
    for (const std::string name :
         {"rust_eh_personality", "__gnat_personality_v0", "_d_eh_personality"}) {
        CAPTURE(name);
        ImageOptions options = some_code();
        options.symtab.push_back({.name = name, .value = 0, .section = SHN_UNDEF});  // imported
        CHECK(shown(select(made_code(options), groups)) == exits);
        options.symtab.back() = {.name = name, .value = kCode + 0xb00};  // linked statically
        CHECK(shown(select(made_code(options), groups)) == exits);
        options.symtab.back().name = "my_" + name;
        CHECK(shown(select(made_code(options), groups)) != exits);
    }
    // Stripped: the compiler has left its name.
    for (const std::string compiler : {"rustc version 1.93.0", "ldc version 1.40.0"}) {
        CAPTURE(compiler);
        ImageOptions options = some_code();
        options.strings_before = std::string(".comment\0", 9) + "GCC: (Debian)" + '\0' + compiler;
        ElfImage image = made_code(options);
        image.change_header([](auto &h) { h.e_shstrndx = ElfImage::kStrtab; });
        const auto strings =
            image.read<Elf64_Shdr>(image.sections_at + ElfImage::kStrtab * sizeof(Elf64_Shdr));
        image.change_section(ElfImage::kText, [&](auto &s) {
            s.sh_name = 1;
            s.sh_offset = strings.sh_offset;
            s.sh_size = strings.sh_size;
        });
        CHECK(shown(select(image, groups)) == exits);
    }
}

TEST_CASE("selection: only some problems are said one by one", "[func_selection]") {
    ImageOptions options;
    for (std::size_t i = 0; i < 50; ++i) {
        options.symtab.push_back({.name = "_Z1fv" + std::to_string(i), .value = kCode + i});
    }
    const Selection selection = select(ElfImage(options), {{"g", group({"*"})}});
    REQUIRE(selection.problems.size() == max_function_problems + 1);
    CHECK(selection.problems.back() ==
          "libx.so: 30 more functions have calls that are counted at entry only");
}

extern "C" [[gnu::noinline, gnu::used]] int func_selection_test_c(int value) {
    return value * 3 + 1;
}

namespace func_selection_test {

[[gnu::noinline, gnu::used]] int overloaded(int value) {
    if (value < 0) {
        throw std::runtime_error("negative");
    }
    return value + func_selection_test_c(value);
}

[[gnu::noinline, gnu::used]] int overloaded(int value, int times) {
    int sum = 0;
    for (int i = 0; i < times; ++i) {
        sum += overloaded(value + i);
    }
    return sum;
}

class Made {
public:
    [[gnu::noinline, gnu::used]] explicit Made(int value);
    int value;
};

Made::Made(int v) : value(overloaded(v, 2)) {}

}  // namespace func_selection_test

TEST_CASE("selection: of what a compiler made", "[func_selection]") {
    CHECK(func_selection_test::Made(1).value > 0);
    const Fd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const auto file = open_good(fd);
    const FunctionGroups groups{
        {"g", group({"func_selection_test_c", "_ZN19func_selection_test*"}, "/proc/*")}};
    const auto selected = select_functions(file, fd.get(), "exe", "/proc/self/exe", groups, 10);
    REQUIRE(selected);
    CHECK(selected->problems == Lines{});
    CHECK(selected->unmatched.empty());
    REQUIRE(selected->functions.size() == 4);  // the two constructors are one
    const std::array<std::string, 4> names{
        "func_selection_test::Made::Made", "func_selection_test::overloaded",
        "func_selection_test::overloaded", "func_selection_test_c"};
    for (std::size_t i = 0; i < names.size(); ++i) {
        const SelectedFunction &function = selected->functions[i];
        CHECK(function.name == names[i]);
        CHECK(function.ending == (i == 3 ? ExitStrategy::return_probe : ExitStrategy::exits));
        CHECK(function.exits.empty() == (i == 3));
        CHECK(file.to_vaddr(function.entry));
        const std::string_view symbol = function.symbol;
        const auto found = find(file, {symbol});
        REQUIRE(found.size() == 1);
        CHECK(found[0].file_offset == function.entry);
        for (const symbols::FunctionExit &exit : function.exits) {
            CHECK(exit.address > function.entry);
        }
    }
    CHECK(selected->functions[1].entry < selected->functions[2].entry);
}

TEST_CASE("selection: of files damaged at random", "[func_selection]") {
    const ElfImage whole = made_code();
    const FunctionGroups groups{{"a", group({"_Z*", "dlsym", "gone"})}, {"b", group({"*"})}};
    std::mt19937_64 random(20'240'919);
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    int answers = 0;
    std::size_t functions = 0;
    for (int round = 0; round < 3000; ++round) {
        CAPTURE(round);
        ElfImage image = whole;
        const std::uint64_t size = image.bytes().size();
        for (auto changes = 1 + below(8); changes > 0; --changes) {
            const std::array<std::uint64_t, 5> parts{0, whole.symtab_at, whole.sections_at,
                                                     ElfImage::kCodeOffset + below(0xb00),
                                                     below(size)};
            const std::array<std::uint64_t, 5> values{0, ~std::uint64_t{0}, kCode + below(0x1000),
                                                      below(size), random()};
            const std::uint64_t at = parts[below(5)] + below(300);
            if (below(2) == 0 && at + 8 <= size) {
                image.write(at, values[below(5)]);
            } else if (at < size) {
                image.write(at, static_cast<std::uint8_t>(random()));
            }
        }
        const auto selection = try_select(image, groups, below(20));
        if (!selection) {
            CHECK_FALSE(selection.error().message.empty());
            continue;
        }
        ++answers;
        functions += selection->functions.size();
        std::set<std::uint64_t> entries;
        for (const SelectedFunction &function : selection->functions) {
            CHECK(entries.insert(function.entry).second);
            CHECK(function.entry < size);
            CHECK_FALSE(function.name.empty());
            CHECK(find_invalid_utf8(function.name) == std::string::npos);
            CHECK(function.options);
            CHECK(function.exits.empty() == (function.ending != ExitStrategy::exits));
            CHECK(std::ranges::is_sorted(function.exits, {}, &symbols::FunctionExit::address));
            CHECK((function.exits.empty() || function.exits.back().address < size));
        }
        for (const std::string &problem : selection->problems) {
            CHECK(find_invalid_utf8(problem) == std::string::npos);
        }
    }
    CHECK(answers > 1000);
    CHECK(functions > 8000);
}

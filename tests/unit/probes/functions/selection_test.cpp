// Which functions of a file are selected, under which names and for which groups.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <initializer_list>

#include "exporter/base/text/text.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/functions/select/candidates.h"
#include "exporter/probes/functions/select/selection.h"
#include "exporter/probes/functions/settings.h"
#include "tests/unit/probes/functions/questions.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/symbols/elf/elf_image.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace gpusnoop::test;
using probes::FunctionGroups;

TEST_CASE("wants: by name, or by path", "[func_selection]") {
    FunctionGroups groups{{"a", group({"f"})}, {"b", group({"f"})}, {"c", group({"f"})}};
    groups["a"].libraries = {"libcublas.so*", "lib[xy].so"};
    groups["b"].libraries = {"/opt/*/libz.so"};
    groups["c"].libraries = {"off.so"};
    groups["c"].enabled = false;
    CHECK(wants(groups, "libcublas.so.13", "/usr/lib/libcublas.so.13"));
    CHECK(wants(groups, "liby.so", "/liby.so"));
    CHECK_FALSE(wants(groups, "liby.so.1", "/liby.so.1"));
    CHECK_FALSE(wants(groups, "xlibcublas.so", "/xlibcublas.so"));
    CHECK(wants(groups, "libz.so", "/opt/a/b/libz.so"));
    CHECK_FALSE(wants(groups, "libz.so", "/usr/libz.so"));
    CHECK_FALSE(wants(groups, "off.so", "/off.so"));
    CHECK_FALSE(wants({}, "libz.so", "/opt/a/libz.so"));
}

TEST_CASE("selection: each function belongs to one pattern of one group", "[func_selection]") {
    ImageOptions options;
    options.symtab = {{.name = "gemm", .value = kCode + 0x100},
                      {.name = "gemmBatched", .value = kCode + 0x110},
                      {.name = "gemmEx", .value = kCode + 0x120},
                      {.name = "gemmEx_internal", .value = kCode + 0x130},
                      {.name = "gemv", .value = kCode + 0x140},
                      {.name = "gemmEx.cold", .value = kCode + 0x150, .bind = STB_LOCAL},
                      {.name = "trsm", .value = kCode + 0x160},
                      {.name = "data", .value = kCode + 0x170, .type = STT_OBJECT}};
    using namespace std::chrono_literals;
    FunctionGroups groups{{"blas", group({"gem*", "gemm", "gemmE*", "nothing", "zz*", "data"})},
                          {"else", group({"gemv", "trsm", "*"})},
                          {"other", group({"*"})},
                          {"strict", group({"gone"})}};
    groups["blas"].exclude = {"*_internal", "gemmBatched"};
    groups["blas"].options.slow_threshold = 1s;
    groups["blas"].functions[1].overrides.slow_threshold = std::optional(5ms);
    groups["else"].exclude = {"gemm*"};
    groups["other"].libraries = {"/other/*"};
    const Selection selection = select(ElfImage(options), groups);
    CHECK(shown(selection) == Lines{"blas gemm 100 return", "blas gemmEx 120 return",
                                    "blas gemv 140 return", "else trsm 160 return"});
    CHECK(selection.functions[0].options->slow_threshold == 5ms);
    CHECK(selection.functions[1].options->slow_threshold == 1s);
    CHECK(selection.functions[1].options == selection.functions[2].options);
    CHECK(selection.unmatched ==
          std::map<std::string, Lines>{{"blas", {"gemmE*", "nothing", "zz*", "data"}},
                                       {"strict", {"gone"}}});
    CHECK(selection.problems ==
          Lines{"libx.so: gemv is wanted by the groups blas and else, and counts for blas"});
    CHECK(selection.not_probeable == 0);

    // A part of a function only where it is said.
    groups = {{"a", group({"*.cold"})}, {"b", group({"gemmEx.cold"})}};
    CHECK(shown(select(ElfImage(options), groups)) == Lines{"b gemmEx.cold 150 none"});
    groups["a"].libraries = groups["b"].libraries = {"liby.so"};
    const Selection none = select(ElfImage(options), groups);
    CHECK((none.functions.empty() && none.unmatched.empty() && none.problems.empty()));
}

TEST_CASE("selection: aliases are one function", "[func_selection]") {
    ImageOptions options;
    options.symtab = {{.name = "b_weak", .value = kCode + 0x100, .bind = STB_WEAK},
                      {.name = "c_global", .value = kCode + 0x100},
                      {.name = "d_global", .value = kCode + 0x100},
                      {.name = "a_local", .value = kCode + 0x100, .bind = STB_LOCAL},
                      {.name = "open@@V_2", .value = kCode + 0x200},
                      {.name = "open@V_1", .value = kCode + 0x210},
                      {.name = "@V_3", .value = kCode + 0x220}};
    options.dynsym = {{.name = "b_weak", .value = kCode + 0x100, .bind = STB_WEAK},
                      {.name = "open", .value = kCode + 0x200},
                      {.name = "open", .value = kCode + 0x210}};
    const ElfImage image(options);
    CHECK(shown(select(image, {{"g", group({"*_*"})}})) == Lines{"g c_global 100 return"});
    CHECK(shown(select(image, {{"g", group({"*_*", "d_global"})}})) ==
          Lines{"g d_global 100 return"});
    CHECK(shown(select(image, {{"g", group({"*_*", "a_local"})}})) ==
          Lines{"g a_local 100 return"});
    CHECK(shown(select(image, {{"g", group({"[ab]_*"})}})) == Lines{"g a_local 100 return"});
    const Selection two = select(image, {{"g", group({"*_global"})}, {"h", group({"a_local"})}});
    CHECK(shown(two) == Lines{"g c_global 100 return"});
    CHECK(two.unmatched.empty());
    CHECK(two.problems ==
          Lines{"libx.so: c_global is wanted by the groups g and h, and counts for g"});
    // What is left out is a name, not the code.
    FunctionGroups groups{{"g", group({"*_*"})}};
    groups["g"].exclude = {"?_global"};
    CHECK(shown(select(image, groups)) == Lines{"g a_local 100 return"});

    CHECK(shown(select(image, {{"g", group({"open"})}})) ==
          Lines{"g open 200 return", "g open 210 return"});
    CHECK(shown(select(image, {{"g", group({"*V*"})}})).empty());
}

TEST_CASE("selection: names that are shown", "[func_selection]") {
    const std::string long_c(300, 'x');
    ImageOptions options;
    options.symtab = {
        {.name = "_ZN2at6matmulERKNS_6TensorES2_", .value = kCode + 0x300},
        {.name = "_ZN2at6matmulERKNS_6TensorE", .value = kCode + 0x200},
        {.name = long_c, .value = kCode + 0x400},
        {.name = "_Z" + std::to_string(200) + std::string(200, 'y') + "v", .value = kCode + 0x500},
        {.name = "bad\xff\n", .value = kCode + 0x600},
        {.name = "_Zbroken", .value = kCode + 0x700},
    };
    const auto names = [&](probes::FunctionGroup wanted) {
        Lines all;
        for (const auto &function :
             select(ElfImage(options), {{"g", std::move(wanted)}}).functions) {
            CHECK(function.name.size() <= probes::max_function_name);
            all.push_back(function.name);
        }
        return all;
    };
    CHECK(names(group({"_ZN2at*"})) == Lines{"at::matmul", "at::matmul"});
    CHECK(names(group({"x*"})) == Lines{"..." + std::string(125, 'x')});
    CHECK(names(group({"_Z2*"})) == Lines{"..." + std::string(125, 'y')});
    CHECK(names(group({"bad*"})) == Lines{"bad\xef\xbf\xbd\xef\xbf\xbd"});
    CHECK(names(group({"_Zb*"})) == Lines{"_Zbroken"});
    probes::FunctionGroup named = group({"_ZN2at*", "x*"});
    named.functions[0].name = "product";
    named.functions[1].name = std::string(probes::max_function_name, 'n');
    CHECK(names(named) == Lines{std::string(probes::max_function_name, 'n'), "product", "product"});
}

TEST_CASE("selection: what picks a function is not one", "[func_selection]") {
    ImageOptions options;
    options.symtab = {{.name = "memcpy", .value = kCode + 0x100, .type = STT_GNU_IFUNC},
                      {.name = "memset", .value = kCode + 0x120, .type = STT_GNU_IFUNC},
                      {.name = "memcpy_resolver", .value = kCode + 0x100, .bind = STB_LOCAL}};
    const Selection selection = select(ElfImage(options), {{"g", group({"mem*"})}});
    CHECK(shown(selection) == Lines{"g memcpy_resolver 100 return"});
    CHECK(selection.not_probeable == 2);
    CHECK(selection.problems ==
          Lines{"libx.so: memcpy picks a function when it is loaded (IFUNC), and has no calls to "
                "count: name the functions that it picks from",
                "libx.so: memset picks a function when it is loaded (IFUNC), and has no calls to "
                "count: name the functions that it picks from"});
    CHECK(selection.unmatched.empty());
}

TEST_CASE("selection: limits", "[func_selection]") {
    ImageOptions options;
    for (std::size_t i = 0; i < 30; ++i) {
        options.symtab.push_back({.name = "f" + std::to_string(i), .value = kCode + 16 * i});
        options.symtab.push_back({.name = "alias" + std::to_string(i), .value = kCode + 16 * i});
        options.symtab.push_back(
            {.name = "i" + std::to_string(i), .value = kCode + 0x800 + i, .type = STT_GNU_IFUNC});
    }
    const ElfImage image(options);
    const FunctionGroups groups{{"a", group({"f1*", "f2"})}, {"b", group({"f*", "i*", "alias*"})}};
    const Selection selection = select(image, groups, 30);
    CHECK(selection.functions.size() == 30);
    CHECK(selection.not_probeable == 30);
    REQUIRE(selection.problems.size() == max_function_problems + 1 + 12);
    CHECK(selection.problems[max_function_problems] ==
          "libx.so: 10 more of the wanted symbols pick a function when they are loaded, and have "
          "no calls to count");
    const auto failed = try_select(image, groups, 29);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code == EFBIG);
    CHECK(failed.error().message ==
          "libx.so: 30 of its functions are wanted, of at most 29, most of them by the glob "
          "\"alias*\" of the group b: write a longer glob, or leave functions out with exclude");
}

TEST_CASE("selection: a library of very many functions", "[func_selection][bulk]") {
    if (is_sanitized) {
        SUCCEED("the reader has two seconds of time, which are too few for it here");
        return;
    }
    ImageOptions options;
    for (std::size_t i = 0; i < 100'001; ++i) {
        options.symtab.push_back({.name = "f" + std::to_string(i), .value = kCode + i % 0x1000});
    }
    const ElfImage image(options);
    CHECK(select(image, {{"g", group({"f1234?", "f4"})}}).functions.size() == 11);
    const auto failed = try_select(image, {{"g", group({"f1", "f*"})}}, 1'000'000);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().message ==
          "libx.so: too many of its functions are wanted, of at most 1000000, most of them by the "
          "glob \"f*\" of the group g: write a longer glob, or leave functions out with exclude");
    // As configured, with the line of the glob.
    const auto parsed = config::parse(
        "functions:\n  groups:\n    wide:\n      libraries: [libx.so]\n"
        "      functions:\n        - f1\n        - {symbol: 'f*'}\n",
        "c.yaml", probes::setting_blocks());
    REQUIRE(parsed);
    const auto configured = try_select(image, parsed->of<FunctionsConfig>().groups, 4096);
    REQUIRE_FALSE(configured);
    CHECK(
        configured.error().message ==
        "libx.so: too many of its functions are wanted, of at most 4096, most of them by the glob "
        "\"f*\" of the group wide on line 7 of the configuration: write a longer glob, or leave "
        "functions out with exclude");
    options.symtab.pop_back();
    CHECK(select(ElfImage(options), {{"g", group({"f*"})}}).functions.size() == 0x1000);
}

TEST_CASE("selection: a file that cannot be read", "[func_selection]") {
    const Fd fd = file_of(ElfImage(ImageOptions{}).bytes());
    const auto file = symbols::ElfFile::open(fd.get());
    REQUIRE(file);
    REQUIRE(::ftruncate(fd.get(), 100) == 0);
    const auto failed =
        select_functions(*file, fd.get(), "lib\n.so", "", {{"g", group({"f"}, "*")}}, 9);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().message == "lib\xef\xbf\xbd.so: it was truncated while it was read");
}

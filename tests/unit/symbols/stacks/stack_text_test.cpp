#include "exporter/symbols/stacks/stack_text.h"

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "exporter/base/text/text.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;

namespace {

const Frame runtime{"cudaMalloc", "libcudart.so.12", 0x40};
const Frame driver{"cuMemAlloc_v2", "libcuda.so.550.54.14", 0x40};
const Frame leak{"leak_big", "train", 0x10};
const Frame step{"train_step", "train", 0x20};
const Frame main_function{"main", "train", 0x30};
const Frame starter{"__libc_start_call_main", "libc.so.6", 0x7a};
const Frame nothing{};

using Frames = std::vector<Frame>;

}  // namespace

TEST_CASE("a site is the innermost calls outside of CUDA", "[stack_text]") {
    CHECK(site_label(Frames{leak, step, main_function}) == "leak_big < train_step < main");
    CHECK(site_label(Frames{driver, runtime, leak, step, main_function, starter}) ==
          "leak_big < train_step < main");
    CHECK(site_label(Frames{leak, runtime, step}) == "leak_big < train_step");
    CHECK(site_label(Frames{leak, step, step, main_function}) ==
          "leak_big < train_step < train_step");
    CHECK(site_label(Frames{{"x", "libcudart-9fe1a7b3.so.12", 0}, leak}) == "leak_big");
    CHECK(site_label(Frames{{"libcudart_static_5f", "train", 0}, leak}) == "leak_big");
    // Others of NVIDIA's libraries are worth to be told.
    CHECK(site_label(Frames{{"", "libcudnn.so.9", 0x1a}, leak}) == "libcudnn.so.9+0x1a < leak_big");
}

TEST_CASE("a site ends at main, or at the function of the thread", "[stack_text]") {
    CHECK(site_label(Frames{main_function, starter, starter}) == "main");
    CHECK(site_label(Frames{leak, {"start_thread", "libc.so.6", 1}, {"clone3", "libc.so.6", 2}}) ==
          "leak_big");
    CHECK(site_label(Frames{starter}) == "__libc_start_call_main");
    CHECK(site_label(Frames{leak, main_function, step}) == "leak_big < main");
    // Distributions strip libc: what starts programs and threads has no name in it.
    const Frame in_libc{"", "libc.so.6", 0x29ca8};
    CHECK(site_label(Frames{leak, in_libc, in_libc}) == "leak_big");
    CHECK(site_label(Frames{leak, in_libc, step}) == "leak_big < train_step");
    CHECK(site_label(Frames{leak, {"qsort", "libc.so.6", 1}}) == "leak_big < qsort");
}

TEST_CASE("a call without a function is a place in its file", "[stack_text]") {
    CHECK(site_label(Frames{{"", "train", 0x1234}, {"", "libtorch.so", 0xabcdef0}}) ==
          "train+0x1234 < libtorch.so+0xabcdef0");
    CHECK(site_label(Frames{{"", "train", ~std::uint64_t{0}}}) == "train+0xffffffffffffffff");
    // What is in no file has only an address, which is of one process.
    CHECK(site_label(Frames{nothing, leak, nothing, step}) == "leak_big < train_step");
    CHECK(site_label(Frames{{"", "", 0x7f0000001234}, leak}) == "leak_big");
    CHECK(site_label(Frames{}) == "unknown");
    CHECK(site_label(Frames{nothing, runtime}) == "unknown");
}

TEST_CASE("a site fits into its label", "[stack_text]") {
    const Frame a{"a::" + std::string(197, 'a'), "m", 0};
    const Frame b{"b<" + std::string(100, 'x') + ">::" + std::string(30, 'b'), "m", 0};
    const std::string label = site_label(Frames{a, leak, b});
    CHECK(label.size() <= max_site_label_bytes);
    CHECK(label.size() > max_site_label_bytes - 6);  // the short name's room goes to the long ones
    CHECK(label.starts_with("...aaa"));
    CHECK(label.ends_with("aa < leak_big < b<...>::" + std::string(30, 'b')));
    CHECK(site_label(Frames{a}) == "..." + std::string(125, 'a'));
    // Text that is not what a Frame promises does no harm either.
    for (const std::string &bad : {std::string(3000, '\xff'), std::string("\n\0;", 3)}) {
        const std::string of_bad = site_label(Frames{{bad, "", 0}, {bad, bad, 0}, {"", bad, 0}});
        CHECK(of_bad.size() <= max_site_label_bytes);
        CHECK(find_invalid_utf8(of_bad) == std::string::npos);
        CHECK(of_bad.find('\n') == std::string::npos);
    }
    std::string wide;
    for (int i = 0; i < 100; ++i) {
        wide += "\xe2\x82\xac";
    }
    CHECK(find_invalid_utf8(site_label(Frames{{wide, "", 0}, {wide, "", 0}})) == std::string::npos);
}

TEST_CASE("folded lines are what flamegraph.pl reads", "[stack_text]") {
    CHECK(folded_line("python3", Frames{runtime, leak, step, main_function, starter}, 4096) ==
          "python3;__libc_start_call_main;main;train_step;leak_big;cudaMalloc 4096");
    CHECK(folded_line("a b;c", Frames{{"f<int, A>", "m", 0}, {"(anonymous namespace)::g;", "m", 0}},
                      0) == "a_b:c;(anonymous_namespace)::g:;f<int,_A> 0");
    CHECK(folded_line("", Frames{nothing, {"", "train", 0x1f}}, ~std::uint64_t{0}) ==
          "[unknown];train+0x1f;[unknown] 18446744073709551615");
    CHECK(folded_line("x", Frames{}, 1) == "x 1");
    const std::string line =
        folded_line("\xff\n", Frames{{std::string(3000, 'x') + " ;\n", "", 0}}, 7);
    CHECK(find_invalid_utf8(line) == std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.size() < 400);
}

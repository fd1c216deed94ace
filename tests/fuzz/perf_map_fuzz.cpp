// libFuzzer target: any bytes as a perf map, and the names found in it in a flame graph.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/base/text/text.h"
#include "exporter/symbols/demangle/function_name.h"
#include "exporter/symbols/stacks/flame_graph.h"
#include "exporter/symbols/stacks/perf_map.h"

using namespace gpusnoop;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const Fd file(::memfd_create("map", MFD_CLOEXEC));
    if (::write(file.get(), data, size) != static_cast<ssize_t>(size)) {
        return 0;
    }
    constexpr std::array<std::uint64_t, 4> addresses = {0x10, 0x1000, 0x7f0000001010,
                                                        ~std::uint64_t{0}};
    const auto found = symbols::functions_in_perf_map(file.get(), addresses);
    if (found.size() != addresses.size()) {
        std::abort();
    }
    symbols::FlameStack stack{.frames = {std::string(reinterpret_cast<const char *>(data), size)},
                              .amount = 1};
    for (const auto &[address, function] : found) {
        if (function.name.size() > symbols::max_function_name_bytes ||
            find_invalid_utf8(function.name) != std::string::npos) {
            std::abort();
        }
        stack.frames.push_back(function.name);
    }
    const std::string svg = symbols::flame_graph(
        {&stack, 1}, {.title = "fuzz", .subtitle = stack.frames.front(), .amount_text = [](auto) {
                          return "1 sample";
                      }});
    // Its own elements, and no others.
    const auto opened = std::ranges::count(svg, '<');
    const bool has_controls = std::ranges::any_of(
        svg, [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; });
    if (has_controls || opened != std::ranges::count(svg, '>') ||
        find_invalid_utf8(svg) != std::string::npos || svg.find("<script") != std::string::npos) {
        std::abort();
    }
    return 0;
}

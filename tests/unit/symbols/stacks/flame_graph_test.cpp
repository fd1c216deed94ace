// Stacks as a picture.
#include "exporter/symbols/stacks/flame_graph.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/harness/counting.h"

using namespace gpusnoop::symbols;
using harness::count;

namespace {

const FlameText words = {
    .title = "A title", .subtitle = "and more", .amount_text = [](auto amount) {
        return std::to_string(amount) + " samples";
    }};

struct Box {
    double x = 0;
    double y = 0;
    double width = 0;
    std::string label;
};

// By the name that shows while the pointer is on it.
std::map<std::string, Box> boxes_of(const std::string &svg) {
    const std::regex pattern(
        "<g><title>(.*?) \\([^()]*\\)</title><rect x=\"([0-9.]+)\" y=\"([0-9]+)\" "
        "width=\"([0-9.]+)\" height=\"16\" fill=\"hsl\\([0-9]+ [0-9]+% [0-9]+%\\)\"/>"
        "(?:<text [^>]*>([^<]*)</text>)?</g>");
    std::map<std::string, Box> boxes;
    for (std::sregex_iterator at(svg.begin(), svg.end(), pattern), end; at != end; ++at) {
        boxes[(*at)[1]] = {.x = std::stod((*at)[2]),
                           .y = std::stod((*at)[3]),
                           .width = std::stod((*at)[4]),
                           .label = (*at)[5]};
    }
    CHECK(boxes.size() == count(svg, "<g>"));
    return boxes;
}

bool is_near(double one, double other) {
    return std::abs(one - other) <= 0.011;  // two digits are written
}

const std::string golden =
    R"svg(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="1200" height="138" viewBox="0 0 1200 138">
<style>text{font:12px ui-monospace,monospace;fill:#1f2328;pointer-events:none}.t{font:600 16px system-ui,sans-serif}.s{font:13px system-ui,sans-serif;fill:#57606a}rect{stroke:#fbfbfa;stroke-width:.5}g:hover rect{stroke:#1f2328;stroke-width:1}</style>
<rect width="1200" height="138" fill="#fbfbfa"/>
<text class="t" x="10" y="26">A title</text>
<text class="s" x="10" y="46">and more</text>
<g><title>all (4 samples, 100.00 %)</title><rect x="10.00" y="111" width="1180.00" height="16" fill="hsl(44 75% 81%)"/><text x="14.00" y="123">all</text></g>
<g><title>python3 (4 samples, 100.00 %)</title><rect x="10.00" y="94" width="1180.00" height="16" fill="hsl(21 75% 68%)"/><text x="14.00" y="106">python3</text></g>
<g><title>[in cudaMalloc] (1 samples, 25.00 %)</title><rect x="10.00" y="77" width="295.00" height="16" fill="hsl(140 45% 72%)"/><text x="14.00" y="89">[in cudaMalloc]</text></g>
<g><title>main (3 samples, 75.00 %)</title><rect x="305.00" y="77" width="885.00" height="16" fill="hsl(25 75% 81%)"/><text x="309.00" y="89">main</text></g>
<g><title>read_[k] (3 samples, 75.00 %)</title><rect x="305.00" y="60" width="885.00" height="16" fill="hsl(200 60% 74%)"/><text x="309.00" y="72">read_[k]</text></g>
</svg>
)svg";

}  // namespace

TEST_CASE("a flame graph is as it was") {
    const std::vector<FlameStack> stacks = {
        {.frames = {"python3", "main", "read_[k]"}, .amount = 3},
        {.frames = {"python3", "[in cudaMalloc]"}, .amount = 1}};
    CHECK(flame_graph(stacks, words) == golden);
    auto boxes = boxes_of(flame_graph(stacks, words));
    REQUIRE(boxes.size() == 5);
    // From the bottom up.
    CHECK(boxes["all"].y == 111);
    CHECK(boxes["python3"].y == 94);
    CHECK(boxes["main"].y == 77);
    CHECK(boxes["read_[k]"].y == 60);
    CHECK(boxes["main"].label == "main");
    CHECK(flame_graph(stacks, words).find("<title>main (3 samples, 75.00 %)</title>") !=
          std::string::npos);
}

TEST_CASE("widths are shares, and what is inside lies over what it is in") {
    const std::vector<FlameStack> stacks = {{.frames = {"a", "b"}, .amount = 10},
                                            {.frames = {"a", "c"}, .amount = 30},
                                            {.frames = {"a"}, .amount = 20},
                                            {.frames = {"d"}, .amount = 58}};
    auto boxes = boxes_of(flame_graph(stacks, words));
    REQUIRE(boxes.size() == 5);
    CHECK(boxes["all"].width == 1180);
    CHECK(is_near(boxes["a"].width, 600));
    CHECK(is_near(boxes["b"].width, 100));
    CHECK(is_near(boxes["c"].width, 300));
    CHECK(is_near(boxes["d"].width, 580));
    CHECK(is_near(boxes["b"].x, boxes["a"].x));
    CHECK(is_near(boxes["c"].x, boxes["b"].x + 100));
    CHECK(is_near(boxes["d"].x, boxes["a"].x + 600));
}

TEST_CASE("what is narrower than half a pixel is left out, and labels are cut to fit") {
    const std::vector<FlameStack> stacks = {
        {.frames = {"wide", std::string(500, 'n')}, .amount = 2 * 1180 - 1},
        {.frames = {"narrow", "inside"}, .amount = 1}};
    auto boxes = boxes_of(flame_graph(stacks, words));
    CHECK(boxes.size() == 5);  // half a pixel is drawn, and what is in it is as wide
    const std::vector<FlameStack> narrower = {{.frames = {"wide"}, .amount = 2 * 1180 + 1},
                                              {.frames = {"narrow"}, .amount = 1}};
    CHECK(boxes_of(flame_graph(narrower, words)).contains("narrow") == false);
    const Box &cut = boxes[std::string(500, 'n')];
    CHECK(cut.label.ends_with(".."));
    CHECK(static_cast<double>(cut.label.size()) * 7.25 <= cut.width);
    CHECK(boxes["narrow"].label.empty());
}

TEST_CASE("names of any bytes do no harm to a flame graph") {
    const std::vector<FlameStack> stacks = {
        {.frames = {"<script>alert(1)</script>", "a&b\"c'd"}, .amount = 1},
        {.frames = {std::string("nul\0 bell\a esc\x1b", 15), "\xff\xfe\xc3("}, .amount = 1},
        {.frames = {"\xE2\x80\xAEright to left", "\xEF\xBF\xBF\xEF\xBF\xBE", "]]>", ""},
         .amount = 1}};
    const std::string svg = flame_graph(
        stacks, {.title = "</text>", .subtitle = "\x01", .amount_text = words.amount_text});
    CHECK(count(svg, "<script") == 0);
    CHECK(count(svg, "&lt;script&gt;alert(1)&lt;/script&gt; (1 samples") == 1);
    CHECK(count(svg, "a&amp;b&quot;c&#39;d (1 samples") == 1);
    CHECK(count(svg, "&lt;/text&gt;") == 1);
    CHECK(count(svg, "<title>]]&gt; (") == 1);
    CHECK(count(svg, "<title>[unknown] (") == 1);
    CHECK(std::ranges::none_of(svg, [](unsigned char c) { return c < 0x20 && c != '\n'; }));
    for (const std::string bad :
         {"\xff", "\xc3(", "\xE2\x80\xAE", "\xEF\xBF\xBF", "\xEF\xBF\xBE"}) {
        CHECK(svg.find(bad) == std::string::npos);
    }
}

TEST_CASE("a flame graph of nothing, and one of very much") {
    const std::string nothing = flame_graph({}, words);
    CHECK(count(nothing, "<g>") == 0);
    CHECK(nothing.ends_with("</svg>\n"));
    std::vector<FlameStack> stacks;
    for (int i = 0; i < 1000; i++) {
        FlameStack &stack = stacks.emplace_back();
        stack.frames.assign(100, "frame" + std::to_string(i));
        stack.amount = 1;
    }
    CHECK(count(flame_graph(stacks, words), "<g>") == max_flames);
}

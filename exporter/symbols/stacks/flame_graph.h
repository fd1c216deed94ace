// Stacks as a picture: a flame graph in SVG, without scripts and without anything from elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace gpusnoop::symbols {

struct FlameStack {
    std::vector<std::string> frames;  // outermost first; any text
    std::uint64_t amount = 0;
};

struct FlameText {
    std::string title;
    std::string subtitle;
    // An amount for people: "17 samples".
    std::function<std::string(std::uint64_t)> amount_text;
};

// What is narrower is left out, with what is above it.
inline constexpr double min_flame_width = 0.5;  // of flame_graph_width
inline constexpr double flame_graph_width = 1200;
// The most frames drawn, the outer ones first.
inline constexpr std::size_t max_flames = 20'000;

// The outermost frames are at the bottom. A frame's width is its share of the sum of all amounts;
// frames with one name beside each other are one. Its whole name, amount and share show while the
// pointer is on it. Functions of the kernel end in "_[k]", and what is no function begins with "[".
[[nodiscard]] std::string flame_graph(std::span<const FlameStack> stacks, const FlameText &text);

}  // namespace gpusnoop::symbols

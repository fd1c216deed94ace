#include "exporter/symbols/stacks/flame_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "exporter/base/text/text.h"

namespace gpusnoop::symbols {

namespace {

constexpr double margin = 10;
constexpr double row_height = 17;
constexpr double head_height = 60;
constexpr double letter_width = 7.25;  // of 12 px monospace
constexpr double text_margin = 4;
constexpr std::size_t max_name_bytes = 512;

constexpr std::string_view style =
    "text{font:12px ui-monospace,monospace;fill:#1f2328;pointer-events:none}"
    ".t{font:600 16px system-ui,sans-serif}.s{font:13px system-ui,sans-serif;fill:#57606a}"
    "rect{stroke:#fbfbfa;stroke-width:.5}g:hover rect{stroke:#1f2328;stroke-width:1}";

struct Node {
    std::uint64_t amount = 0;
    std::map<std::string, Node> inner;
};

struct Flame {
    const std::string *name;
    const Node *node;
    double x;
    std::size_t row;  // from the bottom
};

std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    return hash ^ (hash >> 32U);
}

// The same name has the same colour in every picture.
std::string colour_of(std::string_view name) {
    const std::uint64_t hash = hash_of(name);
    const std::uint64_t lightness = 68 + (hash >> 8U) % 14;
    if (name.starts_with("[in ")) {
        return fmt::format("hsl(140 45% {}%)", lightness);
    }
    if (name.starts_with('[')) {
        return fmt::format("hsl(220 8% {}%)", lightness);
    }
    if (name.ends_with("_[k]")) {
        return fmt::format("hsl({} 60% {}%)", 200 + hash % 30, lightness);
    }
    return fmt::format("hsl({} 75% {}%)", 15 + hash % 40, lightness);
}

// As much of the name as fits, perhaps nothing.
std::string label_of(std::string_view name, double width) {
    const double letters = (width - 2 * text_margin) / letter_width;
    constexpr double least = 3;
    if (letters < least) {
        return "";
    }
    const auto most = static_cast<std::size_t>(letters);
    std::size_t bytes = 0;
    std::size_t cut = 0;  // where the two dots begin, if it is too long
    for (std::size_t count = 0; bytes < name.size(); count++) {
        if (count + 2 == most) {
            cut = bytes;
        }
        if (count == most) {
            return std::string(name.substr(0, cut)) + "..";
        }
        bytes += utf8_step(name.substr(bytes)).size;
    }
    return std::string(name);
}

class Picture {
public:
    Picture(std::span<const FlameStack> stacks, const FlameText &text) : text_(text) {
        for (const FlameStack &stack : stacks) {
            root_.amount += stack.amount;
            Node *at = &root_;
            for (const std::string &frame : stack.frames) {
                at = &at->inner[frame];
                at->amount += stack.amount;
            }
        }
        place();
    }

    [[nodiscard]] std::string svg() const;

private:
    void place();
    [[nodiscard]] double width_of(const Node &node) const {
        return (flame_graph_width - 2 * margin) * static_cast<double>(node.amount) /
               static_cast<double>(root_.amount);
    }
    [[nodiscard]] std::string svg_of(const Flame &flame, double height) const;

    const FlameText &text_;
    const std::string all_ = "all";
    Node root_;
    std::vector<Flame> flames_;  // row by row
};

void Picture::place() {
    if (root_.amount == 0) {
        return;
    }
    flames_.push_back({&all_, &root_, margin, 0});
    for (std::size_t i = 0; i < flames_.size(); i++) {
        const Flame flame = flames_[i];
        double x = flame.x;
        for (const auto &[name, node] : flame.node->inner) {
            const double width = width_of(node);
            if (width >= min_flame_width && flames_.size() < max_flames) {
                flames_.push_back({&name, &node, x, flame.row + 1});
            }
            x += width;
        }
    }
}

std::string Picture::svg_of(const Flame &flame, double height) const {
    const std::string name = flame.name->empty() ? "[unknown]" : *flame.name;
    const double width = width_of(*flame.node);
    const double y = height - margin - static_cast<double>(flame.row + 1) * row_height;
    std::string svg = fmt::format(
        "<g><title>{} ({}, {:.2f} %)</title><rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" "
        "height=\"{:.0f}\" fill=\"{}\"/>",
        escape_html(name, max_name_bytes), text_.amount_text(flame.node->amount),
        100 * static_cast<double>(flame.node->amount) / static_cast<double>(root_.amount), flame.x,
        y, width, row_height - 1, colour_of(name));
    const std::string label = label_of(printable(to_valid_utf8(name, max_name_bytes)), width);
    if (!label.empty()) {
        svg += fmt::format("<text x=\"{:.2f}\" y=\"{:.0f}\">{}</text>", flame.x + text_margin,
                           y + row_height - 5, escape_html(label, max_name_bytes));
    }
    return svg + "</g>\n";
}

std::string Picture::svg() const {
    const std::size_t rows = flames_.empty() ? 0 : flames_.back().row + 1;
    const double height = head_height + static_cast<double>(rows) * row_height + margin;
    std::string svg = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n<style>{2}</style>\n"
        "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#fbfbfa\"/>\n"
        "<text class=\"t\" x=\"{3:.0f}\" y=\"26\">{4}</text>\n"
        "<text class=\"s\" x=\"{3:.0f}\" y=\"46\">{5}</text>\n",
        flame_graph_width, height, style, margin, escape_html(text_.title, max_name_bytes),
        escape_html(text_.subtitle, max_name_bytes));
    for (const Flame &flame : flames_) {
        svg += svg_of(flame, height);
    }
    return svg + "</svg>\n";
}

}  // namespace

std::string flame_graph(std::span<const FlameStack> stacks, const FlameText &text) {
    return Picture(stacks, text).svg();
}

}  // namespace gpusnoop::symbols

#include "exporter/symbols/stacks/stack_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ranges>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/symbols/demangle/function_name.h"

namespace gpusnoop::symbols {
namespace {

constexpr std::size_t max_site_frames = 3;
constexpr std::string_view between = " < ";
constexpr std::size_t max_part_bytes = 256;  // of a folded line

// The functions that call main, or a thread's function.
constexpr std::array<std::string_view, 8> starters{"_start",
                                                   "__libc_start_main",
                                                   "__libc_start_main_impl",
                                                   "__libc_start_call_main",
                                                   "start_thread",
                                                   "clone",
                                                   "clone3",
                                                   "__clone3"};

// The runtime linked into a program has no module of its own, but its functions have this prefix.
constexpr std::string_view static_runtime = "libcudart_static_";

bool is_of_cuda(const Frame &frame) {
    return frame.module.starts_with("libcudart") || frame.module.starts_with("libcuda.so") ||
           frame.function.starts_with(static_runtime);
}

// libc is mostly stripped, so a place in it is useless: the callers of main or of a thread's
// function are there.
bool says_something(const Frame &frame) {
    return !frame.function.empty() ||
           (!frame.module.empty() && !frame.module.starts_with("libc.so"));
}

// Shortens the longest of the names until all fit.
void shorten(std::vector<std::string> &names, std::size_t max_bytes) {
    std::vector<std::string *> by_size;
    for (std::string &name : names) {
        by_size.push_back(&name);
    }
    std::ranges::sort(by_size, {}, [](const std::string *name) { return name->size(); });
    for (std::size_t left = by_size.size(); left > 0; --left) {
        std::string &name = *by_size[by_size.size() - left];
        name = shortened_name(std::move(name), max_bytes / left);
        max_bytes -= name.size();
    }
}

std::string folded(std::string_view text) {
    std::string part = to_valid_utf8(text, max_part_bytes);
    std::ranges::replace(part, ' ', '_');
    std::ranges::replace(part, ';', ':');
    return part.empty() ? "[unknown]" : part;
}

}  // namespace

std::string frame_text(const Frame &frame) {
    if (!frame.function.empty()) {
        return frame.function;
    }
    if (frame.module.empty()) {
        return "[unknown]";
    }
    std::array<char, 16> digits;
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), frame.offset, 16).ptr;
    return frame.module + "+0x" + std::string(digits.data(), end);
}

std::string stack_line(std::span<const Frame> frames, std::size_t max_bytes) {
    std::string text;
    for (const Frame &frame : frames) {
        const std::string name = frame_text(frame);
        if (text.size() + name.size() > max_bytes) {
            return text + std::string(between) + "...";
        }
        text += (text.empty() ? "" : std::string(between)) + name;
    }
    return text;
}

std::string site_label(std::span<const Frame> frames) {
    std::vector<const Frame *> shown;
    for (const Frame &frame : frames) {
        if (!says_something(frame) || is_of_cuda(frame)) {
            continue;
        }
        if (!shown.empty() && std::ranges::find(starters, frame.function) != starters.end()) {
            break;
        }
        shown.push_back(&frame);
        if (shown.size() == max_site_frames || frame.function == "main") {
            break;
        }
    }
    if (shown.empty()) {
        return "unknown";
    }
    std::vector<std::string> names;
    for (const Frame *frame : shown) {
        names.push_back(to_valid_utf8(frame_text(*frame), 4 * max_function_name_bytes));
    }
    return joined_site(std::move(names));
}

std::string joined_site(std::vector<std::string> names) {
    if (names.empty()) {
        return "";
    }
    shorten(names, max_site_label_bytes - between.size() * (names.size() - 1));
    std::string label;
    for (const std::string &name : names) {
        label += (label.empty() ? "" : std::string(between)) + name;
    }
    return label;
}

std::string folded_names(std::string_view comm, std::span<const std::string> names) {
    std::string line = folded(comm);
    for (const std::string &name : names) {
        line += ';' + folded(name);
    }
    return line;
}

std::string folded_line(std::string_view comm, std::span<const Frame> frames, std::uint64_t bytes) {
    std::vector<std::string> names;
    for (const Frame &frame : frames | std::views::reverse) {
        names.push_back(frame_text(frame));
    }
    return folded_names(comm, names) + ' ' + std::to_string(bytes);
}

}  // namespace gpusnoop::symbols

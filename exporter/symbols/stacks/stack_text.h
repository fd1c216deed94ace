// Stacks of calls as text: for a label, and for a flame graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::symbols {

// One call of a stack. Unknown parts are empty. Texts are valid UTF-8.
struct Frame {
    std::string function;      // without arguments, at most max_function_name_bytes
    std::string module;        // the last part of the path of the file
    std::uint64_t offset = 0;  // of the address: in the function, else in the file
};

// What it takes in memory, about, with what the C library and a container add.
[[nodiscard]] inline std::size_t bytes_of(const Frame &frame) {
    return sizeof(frame) + frame.function.size() + frame.module.size() + 96;
}

inline constexpr std::size_t max_site_label_bytes = 128;

// The function; if it is unknown, "module+0x1234", or "[unknown]".
[[nodiscard]] std::string frame_text(const Frame &frame);

// The frames in a line, innermost first, as many as fit: "leak_big < train_step < ...".
[[nodiscard]] std::string stack_line(std::span<const Frame> frames, std::size_t max_bytes);

// The place in a program that a CUDA call comes from: the innermost three calls outside CUDA's own
// libraries, up to main, as in "leak_big < train_step < main". A call without a known function is
// "module+0x1234", if that is not libc. Valid UTF-8, at most max_site_label_bytes; "unknown" if no
// frame is known. Contains no addresses, so it is the same for all processes of a program.
[[nodiscard]] std::string site_label(std::span<const Frame> frames);
// The same of names that were chosen, the innermost first; empty if there are none.
[[nodiscard]] std::string joined_site(std::vector<std::string> names);

// One line for flamegraph.pl, without its newline: "comm;outermost;...;innermost 4096". In the
// texts, which may contain anything, spaces become "_" and semicolons ":".
[[nodiscard]] std::string folded_line(std::string_view comm, std::span<const Frame> frames,
                                      std::uint64_t bytes);
// The same without the number, of names, outermost first.
[[nodiscard]] std::string folded_names(std::string_view comm, std::span<const std::string> names);

}  // namespace gpusnoop::symbols

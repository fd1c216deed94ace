#include "exporter/probes/frame/python/code_names.h"

#include <algorithm>
#include <cstddef>

#include "exporter/probes/frame/python/code_lines.h"
#include "exporter/probes/frame/python/number_at.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_object_bytes = 1024;
constexpr std::size_t max_code_bytes = 256;  // of members that are read
constexpr std::size_t max_line_table_bytes = 64 * 1024 - 64;
// PyBytesObject, in all versions.
constexpr std::size_t bytes_length = 16;
constexpr std::size_t bytes_begin = 32;

void append_utf8(std::string &text, std::uint32_t code) {
    const auto byte = [&](std::uint32_t value) { text += static_cast<char>(value); };
    if (code < 0x80) {
        byte(code);
    } else if (code < 0x800) {
        byte(0xc0U | code >> 6U);
        byte(0x80U | (code & 0x3fU));
    } else if (code < 0x10000) {
        byte(0xe0U | code >> 12U);
        byte(0x80U | (code >> 6U & 0x3fU));
        byte(0x80U | (code & 0x3fU));
    } else {
        byte(0xf0U | (code >> 18U & 0x07U));
        byte(0x80U | (code >> 12U & 0x3fU));
        byte(0x80U | (code >> 6U & 0x3fU));
        byte(0x80U | (code & 0x3fU));
    }
}

template <typename Unit>
std::string text_of(std::string_view units) {
    std::string text;
    for (std::size_t at = 0; at + sizeof(Unit) <= units.size(); at += sizeof(Unit)) {
        append_utf8(text, number_at<Unit>(units, at));
    }
    return text;
}

std::string text_at(symbols::MappedFiles &files, std::uint32_t tgid, const PythonCodeLayout &layout,
                    std::uint64_t object) {
    const auto bytes = files.read_memory(tgid, object, max_object_bytes);
    return bytes ? python_text(*bytes, layout) : "";
}

symbols::Frame function_of(symbols::MappedFiles &files, std::uint32_t tgid,
                           const PythonCodeLayout &layout, std::string_view members) {
    const std::string path =
        text_at(files, tgid, layout, number_at<std::uint64_t>(members, layout.file_name));
    const std::string name =
        text_at(files, tgid, layout, number_at<std::uint64_t>(members, layout.qualified_name));
    if (path.empty() || name.empty()) {
        return {};
    }
    const std::string file = path.substr(path.rfind('/') + 1);
    return {.function = trace::printable(file + ":" + name, trace::max_text_bytes),
            .module = trace::printable(file, trace::max_text_bytes),
            .offset = 0};
}

std::string read_bytes(symbols::MappedFiles &files, std::uint32_t tgid, std::uint64_t object) {
    const auto head = files.read_memory(tgid, object, bytes_begin);
    const auto length = head ? number_at<std::uint64_t>(*head, bytes_length) : 0;
    if (length == 0) {
        return "";
    }
    return files
        .read_memory(tgid, object + bytes_begin,
                     std::min<std::uint64_t>(length, max_line_table_bytes))
        .value_or("");
}

}  // namespace

std::string python_text(std::string_view object, const PythonCodeLayout &layout) {
    // PyASCIIObject: the length at 16, and at 32 bit fields: 2 bits for interned ones, 3 for the
    // bytes of a character, then whether the text is in the object, and whether it is ASCII.
    const auto length = number_at<std::uint64_t>(object, 16);
    const auto state = number_at<std::uint32_t>(object, 32);
    const std::uint32_t width = state >> 2U & 7U;
    const bool is_inside = (state & 0x20U) != 0;
    const bool is_ascii = (state & 0x40U) != 0;
    const std::size_t begin = is_ascii ? layout.ascii_text : layout.unicode_text;
    if (!is_inside || begin >= object.size() || (width != 1 && width != 2 && width != 4)) {
        return "";
    }
    const std::string_view rest = object.substr(begin);
    const std::string_view units = rest.substr(0, std::min(length, rest.size() / width) * width);
    switch (width) {
        case 1:
            return text_of<std::uint8_t>(units);
        case 2:
            return text_of<std::uint16_t>(units);
        default:
            return text_of<std::uint32_t>(units);
    }
}

symbols::Frame python_function(symbols::MappedFiles &files, std::uint32_t tgid,
                               const PythonCodeLayout &layout, std::uint64_t code) {
    const auto members = files.read_memory(tgid, code, max_code_bytes);
    return members ? function_of(files, tgid, layout, *members) : symbols::Frame{};
}

symbols::Frame python_place(symbols::MappedFiles &files, std::uint32_t tgid,
                            const PythonCodeLayout &layout, std::uint64_t code,
                            std::int64_t instruction) {
    const auto members = files.read_memory(tgid, code, max_code_bytes);
    if (!members) {
        return {};
    }
    symbols::Frame frame = function_of(files, tgid, layout, *members);
    if (frame.function.empty()) {
        return {};
    }
    const std::string table =
        read_bytes(files, tgid, number_at<std::uint64_t>(*members, layout.line_table));
    if (const auto line =
            python_line(layout.lines, table, number_at<std::int32_t>(*members, layout.first_line),
                        instruction)) {
        frame.function += ":" + std::to_string(*line);
    }
    return frame;
}

}  // namespace gpusnoop::probes

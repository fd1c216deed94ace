#include "exporter/probes/frame/python/code_names.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "bpf/lib/python/layout.h"
#include "exporter/base/result.h"
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

// Without its line.
PythonPlace place_in(symbols::MappedFiles &files, std::uint32_t tgid,
                     const PythonCodeLayout &layout, std::string_view members) {
    PythonPlace place;
    place.path = text_at(files, tgid, layout, number_at<std::uint64_t>(members, layout.file_name));
    place.function =
        text_at(files, tgid, layout, number_at<std::uint64_t>(members, layout.qualified_name));
    return place.path.empty() || place.function.empty() ? PythonPlace() : place;
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

PythonPlace place_at(symbols::MappedFiles &files, std::uint32_t tgid,
                     const PythonCodeLayout &layout, std::string_view members,
                     std::int64_t instruction) {
    PythonPlace place = place_in(files, tgid, layout, members);
    if (!place.path.empty()) {
        const std::string table =
            read_bytes(files, tgid, number_at<std::uint64_t>(members, layout.line_table));
        place.line = python_line(layout.lines, table,
                                 number_at<std::int32_t>(members, layout.first_line), instruction);
    }
    return place;
}

// 0: it cannot be read.
std::uint64_t identity_of(symbols::MappedFiles &files, std::uint32_t tgid,
                          const PythonCodeLayout &layout, std::string_view members) {
    std::array<__u64, PYTHON_IDENTITY_WORDS> words{};
    for (std::size_t i = 0; i < words.size(); i++) {
        words.at(i) = number_at<__u64>(members, python_identity_offset(layout) + i * sizeof(__u64));
    }
    const std::size_t name = python_identity_name(layout) % words.size();
    if (name != 0) {
        const auto hash =
            files.read_memory(tgid, words.at(name) + PYTHON_HASH_OF_TEXT, sizeof(__u64));
        if (!hash || hash->size() < sizeof(__u64)) {
            return 0;
        }
        words.at(name) = number_at<__u64>(*hash, 0);
    }
    return python_identity(words.data());
}

// Whether its count of references, which comes first, is one. When an object goes, the count
// becomes 0, and then the allocator's pointer to the next free block or nothing is there; the rest
// stays as it was. Bits 32 to 47 are part of each pointer, and of no count (of immortal objects,
// neither).
bool is_alive(std::string_view object) {
    const auto count = number_at<std::uint64_t>(object, 0);
    return (count & 0xffff'ffffU) != 0 && (count >> 32U & 0xffffU) == 0;
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

symbols::Frame PythonPlace::frame() const {
    if (path.empty()) {
        return {};
    }
    const std::string file = path.substr(path.rfind('/') + 1);
    symbols::Frame frame{.function = trace::printable(file + ":" + function, trace::max_text_bytes),
                         .module = trace::printable(file, trace::max_text_bytes),
                         .offset = 0};
    if (line) {
        frame.function += ":" + std::to_string(*line);
    }
    return frame;
}

symbols::Frame python_function(symbols::MappedFiles &files, std::uint32_t tgid,
                               const PythonCodeLayout &layout, std::uint64_t code) {
    const auto members = files.read_memory(tgid, code, max_code_bytes);
    return members ? place_in(files, tgid, layout, *members).frame() : symbols::Frame{};
}

PythonPlace python_place(symbols::MappedFiles &files, std::uint32_t tgid,
                         const PythonCodeLayout &layout, const PythonCall &call,
                         std::uint32_t identity) {
    const auto is_it = [&](const Result<std::string> &members) {
        return members && identity != 0 && is_alive(*members) &&
               identity_of(files, tgid, layout, *members) == identity;
    };
    const auto members = files.read_memory(tgid, call.code, max_code_bytes);
    if (!is_it(members)) {
        return {};
    }
    PythonPlace place = place_at(files, tgid, layout, *members, call.instruction);
    // Its texts may have gone with it, and others be there.
    return is_it(files.read_memory(tgid, call.code, max_code_bytes)) ? place : PythonPlace();
}

PythonPlace python_place(symbols::MappedFiles &files, std::uint32_t tgid,
                         const PythonCodeLayout &layout, std::uint64_t code,
                         std::int64_t instruction) {
    const auto members = files.read_memory(tgid, code, max_code_bytes);
    return members ? place_at(files, tgid, layout, *members, instruction) : PythonPlace();
}

namespace {

std::uint32_t byte_at(std::string_view table, std::size_t at) {
    return at < table.size() ? static_cast<std::uint8_t>(table[at]) : 0;
}

std::optional<std::uint32_t> line_number(std::int64_t line) {
    return line > 0 && line <= std::numeric_limits<std::int32_t>::max()
               ? std::optional(static_cast<std::uint32_t>(line))
               : std::nullopt;
}

// Pairs: how many bytes of code, and how much further the line is (Objects/lnotab_notes.txt of
// cpython 3.10).
std::optional<std::uint32_t> line_by_deltas(std::string_view table, std::int64_t line,
                                            std::int64_t offset) {
    constexpr std::int8_t no_line = -128;
    std::int64_t end = 0;
    for (std::size_t at = 0; at + 1 < table.size(); at += 2) {
        const auto delta = static_cast<std::int8_t>(table[at + 1]);
        end += byte_at(table, at);
        line += delta == no_line ? 0 : delta;
        if (offset < end) {
            return delta == no_line ? std::nullopt : line_number(line);
        }
    }
    return std::nullopt;
}

// Groups of 6 bits, the lowest first; each but the last has the next bit, too. The lowest bit of
// all is the sign.
std::int64_t signed_number(std::string_view table, std::size_t at) {
    constexpr unsigned bits_of_lines = 32;
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < bits_of_lines; shift += 6) {
        const std::uint32_t group = byte_at(table, at++);
        number |= static_cast<std::uint64_t>(group & 0x3fU) << shift;
        if ((group & 0x40U) == 0) {
            break;
        }
    }
    const auto amount = static_cast<std::int64_t>(number >> 1U);
    return (number & 1U) != 0 ? -amount : amount;
}

// Entries begin with a byte that has the highest bit (InternalDocs/code_objects.md of cpython).
std::optional<std::uint32_t> line_by_locations(std::string_view table, std::int64_t line,
                                               std::int64_t unit) {
    constexpr std::uint32_t one_line = 10;  // 10 to 12: so many lines less 10 further
    constexpr std::uint32_t no_columns = 13;
    constexpr std::uint32_t no_location = 15;
    std::int64_t end = 0;
    for (std::size_t at = 0; at < table.size();) {
        const std::uint32_t first = byte_at(table, at++);
        const std::uint32_t kind = first >> 3U & 15U;
        end += (first & 7U) + 1;
        if (kind >= no_columns && kind < no_location) {
            line += signed_number(table, at);
        } else if (kind >= one_line && kind < no_columns) {
            line += kind - one_line;
        }
        if (unit < end) {
            return kind == no_location ? std::nullopt : line_number(line);
        }
        while (at < table.size() && (byte_at(table, at) & 0x80U) == 0) {
            at++;
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> python_line(PythonLineTable kind, std::string_view table,
                                         std::int32_t first_line, std::int64_t unit) {
    if (unit < 0) {
        return line_number(first_line);
    }
    constexpr std::int64_t unit_bytes = 2;
    return kind == PythonLineTable::deltas ? line_by_deltas(table, first_line, unit * unit_bytes)
                                           : line_by_locations(table, first_line, unit);
}

}  // namespace gpusnoop::probes

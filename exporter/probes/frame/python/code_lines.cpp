#include "exporter/probes/frame/python/code_lines.h"

#include <cstddef>
#include <limits>

namespace gpusnoop::probes {

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

#include "exporter/base/text/text.h"

#include <algorithm>
#include <charconv>

namespace gpusnoop {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

unsigned char byte_at(std::string_view bytes, std::size_t at) {
    return static_cast<unsigned char>(bytes[at]);
}

// What a character's first byte implies (table 3-7 of the Unicode standard): how many bytes follow,
// and the range of the second one, which excludes overlong forms, surrogates and > U+10FFFF.
struct Lead {
    std::size_t following;
    unsigned char second_min;
    unsigned char second_max;
};

Lead lead_of(unsigned char first) {
    if (first >= 0xC2 && first <= 0xDF) {
        return {1, 0x80, 0xBF};
    }
    if (first >= 0xE0 && first <= 0xEF) {
        return {2, static_cast<unsigned char>(first == 0xE0 ? 0xA0 : 0x80),
                static_cast<unsigned char>(first == 0xED ? 0x9F : 0xBF)};
    }
    if (first >= 0xF0 && first <= 0xF4) {
        return {3, static_cast<unsigned char>(first == 0xF0 ? 0x90 : 0x80),
                static_cast<unsigned char>(first == 0xF4 ? 0x8F : 0xBF)};
    }
    return {0, 0, 0};
}

// For a valid character of one to three bytes: every character that is not printed has at most
// three.
unsigned code_point(std::string_view character) {
    switch (character.size()) {
        case 1:
            return byte_at(character, 0);
        case 2:
            return (byte_at(character, 0) & 0x1FU) << 6U | (byte_at(character, 1) & 0x3FU);
        case 3:
            return (byte_at(character, 0) & 0x0FU) << 12U | (byte_at(character, 1) & 0x3FU) << 6U |
                   (byte_at(character, 2) & 0x3FU);
        default:
            return 0xFFFFU;
    }
}

// C0, DEL and C1.
bool is_control(unsigned code) {
    return code < 0x20 || (code >= 0x7F && code <= 0x9F);
}

bool is_harmless(unsigned code) {
    const auto between = [code](unsigned first, unsigned last) {
        return code >= first && code <= last;
    };
    return !(is_control(code) || code == 0x061C ||
             between(0x200B, 0x200F) ||                             // direction, no width
             between(0x2028, 0x202E) || between(0x2060, 0x206F) ||  // separators, overrides
             code == 0xFEFF);
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
    const unsigned char first = byte_at(bytes, 0);
    if (first < 0x80) {
        return {1, true};
    }
    const Lead lead = lead_of(first);
    for (std::size_t i = 1; i <= lead.following; ++i) {
        const unsigned char min = i == 1 ? lead.second_min : 0x80;
        const unsigned char max = i == 1 ? lead.second_max : 0xBF;
        if (i >= bytes.size() || byte_at(bytes, i) < min || byte_at(bytes, i) > max) {
            return {i, false};
        }
    }
    return {1 + lead.following, lead.following > 0};
}

std::size_t find_invalid_utf8(std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
        const Utf8Step step = utf8_step(bytes.substr(at));
        if (!step.valid) {
            return at;
        }
        at += step.size;
    }
    return std::string_view::npos;
}

std::string to_valid_utf8(std::string_view bytes, std::size_t max_bytes) {
    bytes = bytes.substr(0, bytes.find('\0'));
    std::string out;
    out.reserve(std::min(bytes.size(), max_bytes));
    while (!bytes.empty()) {
        const Utf8Step step = utf8_step(bytes);
        const std::string_view piece =
            step.valid && !is_control(code_point(bytes.substr(0, step.size)))
                ? bytes.substr(0, step.size)
                : replacement;
        if (out.size() + piece.size() > max_bytes) {
            break;
        }
        out += piece;
        bytes.remove_prefix(step.size);
    }
    return out;
}

std::optional<unsigned> misleading_code(std::string_view character) {
    const unsigned code = code_point(character);
    return is_harmless(code) ? std::nullopt : std::optional(code);
}

std::string printable(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const Utf8Step step = utf8_step(text);
        const std::string_view piece = text.substr(0, step.size);
        out += step.valid && is_harmless(code_point(piece)) ? piece : replacement;
        text.remove_prefix(step.size);
    }
    return out;
}

std::string printable_lines(std::string_view text) {
    std::string out;
    while (true) {
        const std::size_t end = text.find('\n');
        out += printable(text.substr(0, end));
        if (end == std::string_view::npos) {
            return out;
        }
        out += '\n';
        text.remove_prefix(end + 1);
    }
}

std::string in_quotes(std::string_view bytes) {
    constexpr std::size_t max_bytes = 64;
    return '"' + to_valid_utf8(bytes, max_bytes) + (bytes.size() > max_bytes ? "...\"" : "\"");
}

std::string hexadecimal_literal(std::uint64_t value) {
    return "0x" + hexadecimal(value);
}

std::string hexadecimal(std::uint64_t value) {
    std::string text(16, '\0');
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value, 16).ptr;
    text.resize(static_cast<std::size_t>(end - text.data()));
    return text;
}

namespace {

// U+FFFE and U+FFFF are valid UTF-8, and no characters of XML.
void replace_noncharacters(std::string &text) {
    constexpr std::string_view replacement = "\xEF\xBF\xBD";
    for (const std::string_view forbidden : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
        for (std::size_t at = text.find(forbidden); at != std::string::npos;
             at = text.find(forbidden, at)) {
            text.replace(at, forbidden.size(), replacement);
        }
    }
}

}  // namespace

std::string escape_html(std::string_view text, std::size_t max_bytes) {
    std::string shown = printable(to_valid_utf8(text, max_bytes));
    replace_noncharacters(shown);
    std::string out;
    for (const char c : shown) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

}  // namespace gpusnoop

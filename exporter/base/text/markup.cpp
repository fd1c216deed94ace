#include "exporter/base/text/markup.h"

#include "exporter/base/text/text.h"

namespace gpusnoop {

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

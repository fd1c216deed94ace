#include "exporter/http/query.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "exporter/base/text/text.h"

namespace gpusnoop::http {

namespace {

Result<std::string> decode(std::string_view text) {
    constexpr std::size_t hex_digits = 2;
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '%') {
            out += text[at] == '+' ? ' ' : text[at];  // as forms write a space
            continue;
        }
        const std::string_view digits = text.substr(at + 1, hex_digits);
        unsigned char byte = 0;
        const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
        if (digits.size() != hex_digits || read.ptr != digits.data() + digits.size()) {
            return fail("after % two hexadecimal digits must follow, not " + in_quotes(digits));
        }
        out += static_cast<char>(byte);
        at += hex_digits;
    }
    return out;
}

}  // namespace

Result<std::map<std::string, std::string>> parse_query(std::string_view query) {
    std::map<std::string, std::string> values;
    while (!query.empty()) {
        const std::string_view part = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(query.size(), part.size() + 1));
        if (part.empty()) {
            continue;
        }
        const std::size_t equals = part.find('=');
        auto name = decode(part.substr(0, equals));
        auto value = decode(equals == std::string_view::npos ? "" : part.substr(equals + 1));
        if (!name || !value) {
            return tl::unexpected(!name ? name.error() : value.error());
        }
        if (!values.emplace(*name, std::move(*value)).second) {
            return fail("duplicate parameter " + in_quotes(*name));
        }
    }
    return values;
}

}  // namespace gpusnoop::http

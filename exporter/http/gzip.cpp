#include "exporter/http/gzip.h"

#include <strings.h>

#include <optional>

#include "exporter/base/text/words.h"

namespace gpusnoop::http {

namespace {

// The part of `text` before `separator`; `text` keeps what follows it.
std::string_view take(std::string_view &text, char separator) {
    const std::size_t end = text.find(separator);
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return trim(part);
}

bool same_word(std::string_view a, std::string_view b) {
    return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// "q=0", "q=0.0", "q=0.000": not acceptable (RFC 9110, 12.4.2).
bool is_zero_weight(std::string_view parameter) {
    return parameter.size() > 2 && same_word(parameter.substr(0, 2), "q=") &&
           parameter.substr(2).find_first_not_of("0.") == std::string_view::npos;
}

}  // namespace

bool accepts_gzip(std::string_view accept_encoding) {
    std::optional<bool> named;
    bool any = false;
    while (!accept_encoding.empty()) {
        std::string_view item = take(accept_encoding, ',');
        const std::string_view coding = take(item, ';');
        bool wanted = true;
        while (!item.empty()) {
            const std::string_view parameter = take(item, ';');
            wanted = wanted && !is_zero_weight(parameter);
        }
        if (same_word(coding, "gzip") || same_word(coding, "x-gzip")) {
            named = wanted;
        } else if (coding == "*") {
            any = wanted;
        }
    }
    return named.value_or(any);
}

}  // namespace gpusnoop::http

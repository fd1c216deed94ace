#include "exporter/http/request_parts.h"

#include <arpa/inet.h>
#include <strings.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
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

namespace {

bool equal_without_case(std::string_view a, std::string_view b) {
    return std::ranges::equal(
        a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// "node" for "node:80": browsers omit the scheme's default port, proxies may not.
std::string_view without_port(std::string_view host, std::string_view port) {
    return host.ends_with(port) ? host.substr(0, host.size() - port.size()) : host;
}

bool names(std::string_view origin, std::string_view scheme, std::string_view port,
           std::string_view host) {
    if (!equal_without_case(origin.substr(0, scheme.size()), scheme)) {
        return false;
    }
    return equal_without_case(without_port(origin.substr(scheme.size()), port),
                              without_port(host, port));
}

}  // namespace

bool is_foreign_origin(std::string_view origin, std::string_view host) {
    // If TLS ends at a proxy, the scheme is the proxy's.
    return !origin.empty() && !names(origin, "http://", ":80", host) &&
           !names(origin, "https://", ":443", host);
}

bool is_address_or_localhost(std::string_view host) {
    if (host.starts_with('[')) {
        return host.find(']') != std::string_view::npos;  // a name has no brackets
    }
    const std::string name(host.substr(0, host.rfind(':')));
    in_addr address{};
    return name.empty() || equal_without_case(name, "localhost") ||
           ::inet_pton(AF_INET, name.c_str(), &address) == 1;
}

std::string_view target_host(std::string_view target) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (equal_without_case(target.substr(0, scheme.size()), scheme)) {
            const std::string_view rest = target.substr(scheme.size());
            const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
            return authority.substr(authority.rfind('@') + 1);  // npos + 1 is 0
        }
    }
    return {};
}

}  // namespace gpusnoop::http

#include "exporter/cli/top/client/address.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "exporter/base/text/text.h"

namespace gpusnoop::top {

namespace {

constexpr std::uint16_t default_port = 19'435;
constexpr std::size_t max_bytes = 512;
constexpr std::string_view unix_scheme = "unix:";

bool is_letter_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool all_of(std::string_view text, std::string_view others) {
    return std::ranges::all_of(text, [&](char c) {
        return is_letter_or_digit(c) || others.find(c) != std::string_view::npos;
    });
}

// Splits "host", "host:port" or "[address]:port".
std::optional<Address> read_authority(std::string_view text) {
    Address address{.host = {}, .port = default_port, .path = {}};
    std::size_t end = text.find(':');
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == std::string_view::npos || !all_of(text.substr(1, close - 1), ":.")) {
            return std::nullopt;
        }
        address.host = text.substr(1, close - 1);
        end = close + 1;
    } else {
        address.host = text.substr(0, end);
        if (!all_of(address.host, ".-_")) {
            return std::nullopt;
        }
    }
    const std::string_view rest = text.substr(std::min(end, text.size()));
    if (!rest.empty()) {
        const char *last = rest.data() + rest.size();
        const auto read = std::from_chars(rest.data() + 1, last, address.port);
        if (rest.front() != ':' || read.ec != std::errc{} || read.ptr != last ||
            address.port == 0) {
            return std::nullopt;
        }
    }
    return address.host.empty() ? std::nullopt : std::optional(address);
}

tl::unexpected<Error> no_address(std::string_view text) {
    return fail("\"" + to_valid_utf8(text, 64) +
                "\" is not an address of an exporter such as http://127.0.0.1:19435");
}

bool take_scheme(std::string_view &text, std::string_view scheme) {
    if (!text.starts_with(scheme)) {
        return false;
    }
    text.remove_prefix(scheme.size());
    return true;
}

Result<Address> parse_unix(std::string_view text) {
    const std::string_view path = text.substr(unix_scheme.size());
    if (!path.starts_with('/') || path.size() >= sizeof(sockaddr_un::sun_path) ||
        !all_of(path, "/.-_~+,:=@")) {
        return no_address(text);
    }
    return Address{.host = {}, .path = {}, .unix_path = std::string(path)};
}

}  // namespace

std::string Address::text() const {
    return unix_path.empty() ? url() : std::string(unix_scheme) + unix_path;
}

std::string Address::url() const {
    if (!unix_path.empty()) {
        return "http://localhost";
    }
    const bool is_ipv6 = host.find(':') != std::string::npos;
    return (tls ? "https://" : "http://") + (is_ipv6 ? "[" + host + "]" : host) + ":" +
           std::to_string(port) + path;
}

Result<Address> parse_address(std::string_view text) {
    if (text.starts_with(unix_scheme)) {
        return parse_unix(text);
    }
    std::string_view rest = text;
    const bool tls = take_scheme(rest, "https://");
    if (!tls) {
        take_scheme(rest, "http://");
    }
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    auto address = read_authority(rest.substr(0, slash));
    std::string_view path = rest.substr(slash);
    while (path.ends_with('/')) {
        path.remove_suffix(1);
    }
    if (!address || text.size() > max_bytes || !all_of(path, "/.-_~")) {
        return no_address(text);
    }
    address->path = path;
    address->tls = tls;
    return *address;
}

}  // namespace gpusnoop::top

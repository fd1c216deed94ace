#include "exporter/top/address.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "exporter/base/text.h"

namespace gpusnoop::top {

namespace {

constexpr std::uint16_t default_port = 19'435;
constexpr std::size_t max_bytes = 512;

bool is_letter_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool all_of(std::string_view text, std::string_view others) {
    return std::ranges::all_of(text, [&](char c) {
        return is_letter_or_digit(c) || others.find(c) != std::string_view::npos;
    });
}

// Takes "host", "host:port" or "[address]:port" apart.
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

}  // namespace

std::string Address::host_and_port() const {
    const bool is_ipv6 = host.find(':') != std::string::npos;
    return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string Address::text() const {
    return "http://" + host_and_port() + path;
}

Result<Address> parse_address(std::string_view text) {
    constexpr std::string_view scheme = "http://";
    std::string_view rest = text;
    if (rest.starts_with("https://")) {
        return fail("https is not spoken here: give an address that begins with http://");
    }
    if (rest.starts_with(scheme)) {
        rest.remove_prefix(scheme.size());
    }
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    auto address = read_authority(rest.substr(0, slash));
    std::string_view path = rest.substr(slash);
    while (path.ends_with('/')) {
        path.remove_suffix(1);
    }
    if (!address || text.size() > max_bytes || !all_of(path, "/.-_~")) {
        return fail("\"" + to_valid_utf8(text, 64) +
                    "\" is not an address of an exporter such as http://127.0.0.1:19435");
    }
    address->path = path;
    return *address;
}

}  // namespace gpusnoop::top

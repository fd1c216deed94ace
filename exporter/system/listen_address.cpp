#include "exporter/system/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "exporter/base/text/text.h"

namespace gpusnoop {

namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
    std::uint16_t port = 0;
    const char *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, port);
    if (error != std::errc{} || stop != end || (text.size() > 1 && text.front() == '0')) {
        return std::nullopt;
    }
    return port;
}

bool is_address(int family, const std::string &host) {
    in6_addr parsed{};
    return inet_pton(family, host.c_str(), &parsed) == 1;
}

Result<ListenAddress> parse_unix(std::string_view path) {
    // Room for the NUL at the end.
    constexpr std::size_t most = sizeof(sockaddr_un::sun_path) - 1;
    if (path.size() < 2 || path.front() != '/' || path.back() == '/' ||
        path.find('\0') != std::string_view::npos) {
        return fail("\"unix:" + to_valid_utf8(path, 64) +
                    "\" is not an address to listen on: expected unix: and an absolute path");
    }
    if (path.size() > most) {
        return fail("the path of a Unix socket has at most " + std::to_string(most) +
                    " bytes, this one has " + std::to_string(path.size()));
    }
    return ListenAddress{.host = "", .unix_path = std::string(path)};
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view text) {
    constexpr std::string_view unix_scheme = "unix:";
    if (text.starts_with(unix_scheme)) {
        return parse_unix(text.substr(unix_scheme.size()));
    }
    const std::size_t colon = text.rfind(':');
    const std::optional<std::uint16_t> port =
        colon == std::string_view::npos ? std::nullopt : parse_port(text.substr(colon + 1));
    if (port) {
        const std::string host(text.substr(0, colon));
        if (host.empty()) {
            return ListenAddress{"", false, *port};
        }
        if (host == "localhost") {
            return ListenAddress{"127.0.0.1", false, *port};
        }
        // c_str() below would hide the text after a NUL.
        if (host.find('\0') == std::string::npos) {
            if (is_address(AF_INET, host)) {
                return ListenAddress{host, false, *port};
            }
            if (host.size() > 2 && host.front() == '[' && host.back() == ']' &&
                is_address(AF_INET6, host.substr(1, host.size() - 2))) {
                return ListenAddress{host.substr(1, host.size() - 2), true, *port};
            }
        }
    }
    return fail("\"" + to_valid_utf8(text, 64) +
                "\" is not an address to listen on: expected :PORT, ADDRESS:PORT, [IPV6]:PORT or "
                "unix:/PATH");
}

std::optional<std::size_t> find_repeated_address(std::span<const std::string> addresses) {
    std::vector<ListenAddress> seen;
    for (std::size_t i = 0; i < addresses.size(); i++) {
        auto address = parse_listen_address(addresses[i]);
        if (!address || (address->port == 0 && address->unix_path.empty())) {
            continue;
        }
        if (std::ranges::find(seen, *address) != seen.end()) {
            return i;
        }
        seen.push_back(*std::move(address));
    }
    return std::nullopt;
}

}  // namespace gpusnoop

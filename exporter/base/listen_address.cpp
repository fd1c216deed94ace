#include "exporter/base/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <optional>

#include "exporter/base/text.h"

namespace gpusnoop {

namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
    std::uint16_t port = 0;
    const char *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, port);
    if (error != std::errc{} || stop != end) {
        return std::nullopt;
    }
    return port;
}

bool is_address(int family, const std::string &host) {
    in6_addr parsed{};
    return inet_pton(family, host.c_str(), &parsed) == 1;
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view text) {
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
        // c_str() below would hide what follows a NUL.
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
                "\" is not an address to listen on: expected :PORT, ADDRESS:PORT or [IPV6]:PORT");
}

}  // namespace gpusnoop

#include "exporter/sinks/target.h"

#include <algorithm>
#include <charconv>

#include "exporter/base/text/text.h"

namespace gpusnoop::sinks {

namespace {

constexpr std::size_t max_host = 253;

bool is_host(std::string_view host, bool in_brackets) {
    constexpr std::string_view name =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    constexpr std::string_view address_characters =
        "0123456789abcdefABCDEF:.%-_ghijklmnopqrstuvwxyz";
    return !host.empty() && host.size() <= max_host &&
           host.find_first_not_of(in_brackets ? address_characters : name) ==
               std::string_view::npos;
}

}  // namespace

std::string to_text(const Target &target) {
    switch (target.type) {
        case TargetType::file:
            return "file:" + target.path;
        case TargetType::unix_socket:
            return "unix:" + target.path;
        case TargetType::tcp:
            break;
    }
    const bool is_v6 = target.host.find(':') != std::string::npos;
    return "tcp:" + (is_v6 ? "[" + target.host + "]" : target.host) + ":" +
           std::to_string(target.port);
}

Result<Target> parse_tcp(std::string_view address) {
    const auto wrong = [&] {
        return fail(in_quotes(address) +
                    " is not an address such as collector:9000, 10.0.0.1:9000 or [::1]:9000");
    };
    const bool in_brackets = address.starts_with('[');
    const std::size_t colon = address.rfind(':');
    if (colon == std::string_view::npos || (in_brackets && address[colon - 1] != ']')) {
        return wrong();
    }
    const std::string_view host =
        in_brackets ? address.substr(1, colon - 2) : address.substr(0, colon);
    const std::string_view digits = address.substr(colon + 1);
    std::uint16_t port = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size() || port == 0 ||
        !is_host(host, in_brackets)) {
        return wrong();
    }
    return Target{.type = TargetType::tcp, .path = {}, .host = std::string(host), .port = port};
}

Result<Target> parse_path(TargetType type, std::string_view path) {
    if (!path.starts_with('/') || path.ends_with('/')) {
        return fail(in_quotes(path) + " is not an absolute path of a " +
                    (type == TargetType::file ? "file" : "socket"));
    }
    const std::size_t most = type == TargetType::file ? max_file_path : max_socket_path;
    if (path.size() > most) {
        return fail("must be " + std::to_string(most) + " bytes long at most, is " +
                    std::to_string(path.size()));
    }
    return Target{.type = type, .path = std::string(path)};
}

}  // namespace gpusnoop::sinks

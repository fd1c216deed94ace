#include "exporter/http/origin.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace gpusnoop::http {

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

// Parses what clients send: the query, and the headers on encodings, sites and hosts.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop::http {

// "pid=12&comm=a%20b" as values by name, decoded; a name alone has an empty value. The bytes may be
// anything. An error is a sentence for the client: an invalid escape, or a name that is there
// twice.
[[nodiscard]] Result<std::map<std::string, std::string>> parse_query(std::string_view query);

// Whether an Accept-Encoding header's value allows gzip: named, or "*", with a q above 0.
[[nodiscard]] bool accepts_gzip(std::string_view accept_encoding);

// `origin` is the header of this name, `host` is Request::host; either is empty if absent. A
// request without an origin does not come from a browser, or its user made it. Pages without a site
// have the origin "null".
[[nodiscard]] bool is_foreign_origin(std::string_view origin, std::string_view host);

// Whether `host`, Request::host, is an address, "localhost" or empty. A browser that a
// site has made connect to this machine under the site's own name (DNS rebinding) sends that name.
[[nodiscard]] bool is_address_or_localhost(std::string_view host);

// The host and port of an absolute target ("node:19435" of "http://user@node:19435/metrics"), empty
// for another target. They count instead of the header `Host` (RFC 9112, 3.2.2).
[[nodiscard]] std::string_view target_host(std::string_view target);

}  // namespace gpusnoop::http

// Recognizes requests that a browser sends for a page of another site.
#pragma once

#include <string_view>

namespace gpusnoop::http {

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

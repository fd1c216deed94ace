// Recognizes requests that a browser sends for a page of another site.
#pragma once

#include <string_view>

namespace gpusnoop::http {

// `origin` and `host` are the headers of these names, empty if absent. A request without an origin
// does not come from a browser, or its user made it. Pages without a site have the origin "null".
[[nodiscard]] bool is_foreign_origin(std::string_view origin, std::string_view host);

// Whether `host`, the header of this name, is an address, "localhost" or empty. A browser that a
// site has made connect to this machine under the site's own name (DNS rebinding) sends that name.
[[nodiscard]] bool is_address_or_localhost(std::string_view host);

}  // namespace gpusnoop::http

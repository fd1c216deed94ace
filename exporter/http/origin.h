// Whether a browser sends a request for a page of another site.
#pragma once

#include <string_view>

namespace gpusnoop::http {

// `origin` and `host` are the headers of these names, empty if there are none. A request without an
// origin is no browser's, or of its user's own. "null" is of pages without a site of their own.
[[nodiscard]] bool is_foreign_origin(std::string_view origin, std::string_view host);

}  // namespace gpusnoop::http

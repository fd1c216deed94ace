// Parses the part of a request after '?'.
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

}  // namespace gpusnoop::http

#include "exporter/probes/frame/api_resource.h"

#include <charconv>
#include <limits>

#include "exporter/base/text.h"

namespace gpusnoop::probes {

Result<std::uint32_t> read_parameter(const std::string &name, const std::string &value,
                                     std::uint32_t least) {
    std::uint32_t number = 0;
    const char *end = value.data() + value.size();
    const auto read = std::from_chars(value.data(), end, number);
    if (read.ec != std::errc{} || read.ptr != end || number < least) {
        return fail(name + " must be a number from " + std::to_string(least) + " to " +
                    std::to_string(std::numeric_limits<std::uint32_t>::max()) + ", not " +
                    in_quotes(value));
    }
    return number;
}

Result<bool> PidAndLimit::read(const std::string &name, const std::string &value) {
    if (name != "pid" && name != "limit") {
        return false;
    }
    const auto number = read_parameter(name, value, name == "pid" ? 1 : 0);
    if (!number) {
        return tl::unexpected(number.error());
    }
    (name == "pid" ? pid.emplace() : limit) = *number;
    return true;
}

}  // namespace gpusnoop::probes

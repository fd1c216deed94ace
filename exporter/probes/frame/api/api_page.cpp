#include "exporter/probes/frame/api/api_page.h"

#include <charconv>
#include <limits>

#include "exporter/base/text/text.h"

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

}  // namespace gpusnoop::probes

#include "exporter/trace/options.h"

#include "exporter/config/units.h"

namespace gpusnoop::trace {

std::vector<std::string> Options::texts(const Option &option) const {
    const auto found = given.find(option.name);
    return found == given.end() ? std::vector<std::string>() : found->second;
}

std::optional<std::chrono::milliseconds> Options::duration_of(const Option &option) const {
    const auto found = given.find(option.name);
    return found == given.end() || found->second.empty()
               ? std::nullopt
               : config::parse_duration(found->second.front());
}

}  // namespace gpusnoop::trace

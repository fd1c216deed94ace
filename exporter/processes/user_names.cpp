#include "exporter/processes/user_names.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>

#include "exporter/base/read_file.h"

namespace gpusnoop::processes {

namespace {

constexpr std::size_t max_file_bytes = 1U << 20;  // more than 10,000 users
constexpr std::chrono::minutes lifetime{1};

std::string_view take_until(std::string_view &rest, char separator) {
    const std::size_t end = std::min(rest.find(separator), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return part;
}

}  // namespace

std::string UserNames::of(std::uint32_t uid, Time now) {
    if (!read_at_ || now - *read_at_ >= lifetime) {
        read_at_ = now;
        read();
    }
    const auto found = names_.find(uid);
    return found == names_.end() ? std::string() : found->second;
}

// Each line is name:password:uid:..., as in passwd(5). The first user of an id gives the name.
void UserNames::read() {
    const std::string text = read_start(path_, max_file_bytes).value_or("");
    names_.clear();
    for (std::string_view rest = text; !rest.empty();) {
        std::string_view line = take_until(rest, '\n');
        const std::string_view name = take_until(line, ':');
        take_until(line, ':');
        const std::string_view number = take_until(line, ':');
        std::uint32_t uid = 0;
        const auto [end, error] =
            std::from_chars(number.data(), number.data() + number.size(), uid);
        if (error == std::errc() && end == number.data() + number.size() && !name.empty()) {
            names_.try_emplace(uid, name);
        }
    }
}

}  // namespace gpusnoop::processes

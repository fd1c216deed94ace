#include "exporter/processes/user_names.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>

#include "exporter/base/read_file.h"
#include "exporter/base/text/text.h"

namespace gpusnoop::processes {

namespace {

constexpr std::size_t max_file_bytes = 1U << 20;  // more than 10,000 users
constexpr std::chrono::minutes lifetime{1};

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

#include "exporter/processes/user_shares.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <mutex>
#include <string_view>

#include "exporter/base/read_file.h"
#include "exporter/base/text/text.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::processes {

namespace {

constexpr std::size_t max_id_file_bytes = 1U << 20;
constexpr std::chrono::minutes lifetime_of_ranges{1};
// UID_MIN in login.defs(5), and nobody.
constexpr std::uint32_t first_ordinary_user = 1000;
constexpr std::uint32_t no_ordinary_user = 65'534;

std::optional<std::uint32_t> id_in(std::string_view text) {
    std::uint32_t id = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    const bool is_whole = error == std::errc() && end == text.data() + text.size();
    return is_whole ? std::optional(id) : std::nullopt;
}

// Lines like name:password:uid:..., as in passwd(5).
std::map<std::string, std::uint32_t, std::less<>> ids_by_name(std::string_view text) {
    std::map<std::string, std::uint32_t, std::less<>> ids;
    while (!text.empty()) {
        std::string_view line = take_until(text, '\n');
        const std::string_view name = take_until(line, ':');
        take_until(line, ':');
        if (const auto id = id_in(take_until(line, ':')); id && !name.empty()) {
            ids.try_emplace(std::string(name), *id);
        }
    }
    return ids;
}

bool is_ordinary(std::uint32_t uid) {
    return uid >= first_ordinary_user && uid != no_ordinary_user;
}

}  // namespace

// Lines like name:first:count, or with an id in the name's place.
void SubordinateUsers::read() {
    ranges_.clear();
    const std::string text = read_start(etc_ + "/subuid", max_id_file_bytes).value_or("");
    if (text.empty()) {
        return;
    }
    const auto users = ids_by_name(read_start(etc_ + "/passwd", max_id_file_bytes).value_or(""));
    for (std::string_view rest = text; !rest.empty();) {
        std::string_view line = take_until(rest, '\n');
        const std::string_view name = take_until(line, ':');
        const auto user = users.find(name);
        const auto owner = user != users.end() ? std::optional(user->second) : id_in(name);
        const auto first = id_in(take_until(line, ':'));
        const auto count = id_in(line);
        if (owner && first && count && is_ordinary(*owner)) {
            ranges_.push_back({*first, *count, *owner});
        }
    }
}

std::uint32_t SubordinateUsers::owner_of(std::uint32_t uid, Time now) {
    if (!read_at_ || now - *read_at_ >= lifetime_of_ranges) {
        read_at_ = now;
        read();
    }
    const auto range = std::ranges::find_if(ranges_, [uid](const Range &one) {
        return uid >= one.first && uid - one.first < one.count;
    });
    return range == ranges_.end() ? uid : range->owner;
}

std::uint32_t sharing_user(std::uint32_t uid) {
    static std::mutex mutex;
    static SubordinateUsers users("/proc/1/root/etc");  // the host's, also for a container
    const std::lock_guard lock(mutex);
    return users.owner_of(uid);
}

std::optional<std::uint32_t> sharing_user_of(std::uint32_t tgid) {
    const auto uid = user_of(tgid);
    return uid ? std::optional(sharing_user(*uid)) : std::nullopt;
}

}  // namespace gpusnoop::processes

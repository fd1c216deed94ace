#include "exporter/probes/frame/processes/user_room.h"

#include <utility>

#include "exporter/processes/user_shares.h"

namespace gpusnoop::probes {

bool UserRoom::has(const User &user, std::size_t bytes) const {
    const auto known = of_users_.find(user);
    const std::size_t of_user = known == of_users_.end() ? 0 : known->second;
    const std::size_t most = user == 0U ? limits_.bytes : limits_.bytes_of_user;
    return taken_ + bytes <= limits_.bytes && of_user + bytes <= most;
}

bool UserRoom::take(const User &user, std::size_t bytes) {
    if (!has(user, bytes)) {
        return false;
    }
    taken_ += bytes;
    of_users_[user] += bytes;
    return true;
}

void UserRoom::give_back(const User &user, std::size_t bytes) {
    taken_ -= bytes;
    if (const auto known = of_users_.find(user); (known->second -= bytes) == 0) {
        of_users_.erase(known);
    }
}

UserShare::UserShare(std::shared_ptr<UserRoom> room, std::optional<std::uint32_t> uid)
    : room_(std::move(room)),
      user_(uid ? std::optional(processes::sharing_user(*uid)) : std::nullopt) {}

UserShare::UserShare(UserShare &&other) noexcept
    : room_(std::move(other.room_)), user_(other.user_), bytes_(std::exchange(other.bytes_, 0)) {}

UserShare &UserShare::operator=(UserShare &&other) noexcept {
    std::swap(room_, other.room_);
    std::swap(user_, other.user_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

UserShare::~UserShare() {
    give_back(bytes_);
}

bool UserShare::take(std::size_t bytes) {
    if (!room_) {
        return true;
    }
    const bool has_room = room_->take(user_, bytes);
    bytes_ += has_room ? bytes : 0;
    return has_room;
}

void UserShare::give_back(std::size_t bytes) {
    if (room_ && bytes > 0) {
        room_->give_back(user_, bytes);
        bytes_ -= bytes;
    }
}

}  // namespace gpusnoop::probes

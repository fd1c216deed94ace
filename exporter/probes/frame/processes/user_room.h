// The exporter's memory for what processes make it keep, of which one user has a part at most:
// however many processes the user has, those of others have room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

namespace gpusnoop::probes {

// Root has all of it: containers of many people are root's.
class UserRoom {
public:
    using User = std::optional<std::uint32_t>;  // none: it is not known, and all such share a part
    struct Limits {
        std::size_t bytes;  // about, as all sizes here
        std::size_t bytes_of_user;
    };

    explicit UserRoom(const Limits &limits) : limits_(limits) {}

    [[nodiscard]] bool has(const User &user, std::size_t bytes) const;
    // False: there is not so much room.
    [[nodiscard]] bool take(const User &user, std::size_t bytes);
    void give_back(const User &user, std::size_t bytes);

private:
    Limits limits_;
    std::size_t taken_ = 0;
    std::map<User, std::size_t> of_users_;
};

// What one process has of it, until it is destroyed.
class UserShare {
public:
    UserShare() = default;  // of no room: without a limit
    // `uid`: of the process.
    UserShare(std::shared_ptr<UserRoom> room, std::optional<std::uint32_t> uid);
    UserShare(UserShare &&other) noexcept;
    UserShare &operator=(UserShare &&other) noexcept;
    ~UserShare();

    [[nodiscard]] bool is_limited() const { return room_ != nullptr; }
    [[nodiscard]] bool has_room_for(std::size_t bytes) const {
        return !room_ || room_->has(user_, bytes);
    }

    // False: there is not so much room.
    [[nodiscard]] bool take(std::size_t bytes);
    void give_back(std::size_t bytes);

private:
    std::shared_ptr<UserRoom> room_;
    UserRoom::User user_;
    std::size_t bytes_ = 0;
};

}  // namespace gpusnoop::probes

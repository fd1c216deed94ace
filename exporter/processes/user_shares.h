// Whose share of limited work a process has.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpusnoop::processes {

// subuid(5) gives some users ranges of further ids, for user namespaces of their own. All ids of
// such a range count for its owner, who would otherwise have the shares of 65,536 users. This is
// only so for ordinary users: the ranges of system users, such as a container runtime's or a
// kubelet's, are divided among containers of different people, and each id there has a share of its
// own.
class SubordinateUsers {
public:
    using Time = std::chrono::steady_clock::time_point;

    // `etc` has the files subuid and passwd.
    explicit SubordinateUsers(std::string etc) : etc_(std::move(etc)) {}

    // The user who was given the id, or the id itself. Reads the files once a minute at most.
    [[nodiscard]] std::uint32_t owner_of(std::uint32_t uid,
                                         Time now = std::chrono::steady_clock::now());

private:
    struct Range {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
        std::uint32_t owner = 0;
    };
    void read();

    std::string etc_;
    std::optional<Time> read_at_;
    std::vector<Range> ranges_;
};

// By the files of the host. For any thread.
[[nodiscard]] std::uint32_t sharing_user(std::uint32_t uid);
// Of the process's user; nothing if it has ended.
[[nodiscard]] std::optional<std::uint32_t> sharing_user_of(std::uint32_t tgid);

// For work that any user can make much of: so much is done for each of them.
class UserQuota {
public:
    explicit UserQuota(std::size_t of_each) : of_each_(of_each) {}

    // One more. False: the user's share is used up.
    [[nodiscard]] bool take(std::optional<std::uint32_t> user) {
        return ++taken_[user] <= of_each_;
    }

private:
    std::size_t of_each_;
    std::map<std::optional<std::uint32_t>, std::size_t> taken_;
};

}  // namespace gpusnoop::processes

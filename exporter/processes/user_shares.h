// Whose share of limited work a process has.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpusnoop::processes {

// The users that can take the ids of others: those to whom subuid(5) gives ranges of ids, for user
// namespaces of their own. Without this, such a user would have the shares of 65,536 users. Only
// ordinary users count: the ranges of system users, such as a container runtime's or a kubelet's,
// are divided among containers of others, which have a share each.
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

}  // namespace gpusnoop::processes

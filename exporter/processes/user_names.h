// Names of users, from the file of local users. Other sources, such as LDAP, are not asked: an
// answer of theirs may take as long as it likes.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace gpusnoop::processes {

class UserNames {
public:
    using Time = std::chrono::steady_clock::time_point;

    explicit UserNames(std::string path = "/etc/passwd") : path_(std::move(path)) {}

    // Untrusted bytes; empty if the file has no such user. Reads the file once a minute at most.
    [[nodiscard]] std::string of(std::uint32_t uid, Time now = std::chrono::steady_clock::now());

private:
    void read();

    std::string path_;
    std::optional<Time> read_at_;
    std::map<std::uint32_t, std::string> names_;
};

}  // namespace gpusnoop::processes

// Logins by name and password (RFC 7617), against bcrypt hashes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace gpusnoop::http {

class BasicAuth {
public:
    enum class Verdict : std::uint8_t {
        allowed,
        denied,
        unknown,  // check() finds out
    };

    // `users`: bcrypt hashes by name. Without any, everybody is allowed.
    explicit BasicAuth(std::map<std::string, std::string> users);

    // Both are for any thread; `authorization` is that header's value, empty if there is none.
    // What is known at once: without users everybody is allowed, what is no login is denied, and a
    // login that was right before is remembered.
    [[nodiscard]] Verdict recall(std::string_view authorization) const;
    // Whether the login is right. Takes as long as bcrypt does, for a user who does not exist as
    // long as the dearest hash, and one is checked at a time.
    [[nodiscard]] bool check(std::string_view authorization);

    [[nodiscard]] bool is_needed() const { return !users_.empty(); }

    // Logins that are remembered.
    static constexpr std::size_t max_remembered = 128;

private:
    using Digest = std::array<unsigned char, 32>;

    [[nodiscard]] Digest digest(const std::string &user, const std::string &password) const;
    [[nodiscard]] bool remembers(const Digest &login) const;

    std::map<std::string, std::string> users_;
    // A hash as dear as the dearest of them, of nobody's password.
    std::string nobody_;
    // Makes what is remembered worth nothing elsewhere.
    Digest secret_{};

    mutable std::mutex remembered_mutex_;
    std::deque<Digest> remembered_;  // the newest last

    std::mutex checking_mutex_;
};

}  // namespace gpusnoop::http

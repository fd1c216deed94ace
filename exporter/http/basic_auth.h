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
        unknown,  // only check() can decide
    };

    // `users`: bcrypt hashes by name. Without users, everybody is allowed.
    explicit BasicAuth(std::map<std::string, std::string> users);

    // Both are for any thread; `authorization` is that header's value, empty if there is none.
    // Decides without bcrypt: without users everybody is allowed, a malformed login is denied, and
    // a remembered right login is allowed.
    [[nodiscard]] Verdict recall(std::string_view authorization) const;
    // Whether the login is right. Takes as long as bcrypt does; for an unknown user, as long as the
    // most expensive hash. Checks one login at a time.
    [[nodiscard]] bool check(std::string_view authorization);

    [[nodiscard]] bool is_needed() const { return !users_.empty(); }

    // The limit of remembered logins.
    static constexpr std::size_t max_remembered = 128;

private:
    using Digest = std::array<unsigned char, 32>;

    [[nodiscard]] Digest digest(const std::string &user, const std::string &password) const;
    [[nodiscard]] bool remembers(const Digest &login) const;

    std::map<std::string, std::string> users_;
    // A hash as expensive as the most expensive one, which no password matches.
    std::string nobody_;
    // Makes the remembered digests useless outside this process.
    Digest secret_{};

    mutable std::mutex remembered_mutex_;
    std::deque<Digest> remembered_;  // the newest last

    std::mutex checking_mutex_;
};

}  // namespace gpusnoop::http

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

#include "exporter/base/turnstile.h"

namespace gpusnoop::http {

class BasicAuth {
public:
    enum class Verdict : std::uint8_t {
        allowed,
        denied,
        busy,  // too many passwords are being checked: to be tried again
    };

    // `users`: bcrypt hashes by name. Without any, everybody is allowed.
    explicit BasicAuth(std::map<std::string, std::string> users);

    // `authorization` is that header's value, empty if there is none. For any thread. A login that
    // was right before costs nothing. Any other takes as long as bcrypt does, that of a user who
    // does not exist as long as the dearest hash, and one is checked at a time.
    [[nodiscard]] Verdict check(std::string_view authorization);

    [[nodiscard]] bool is_needed() const { return !users_.empty(); }

    // Logins that are remembered, and those that may wait to be checked.
    static constexpr std::size_t max_remembered = 128;
    static constexpr int max_waiting = 16;

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
    Turnstile waiting_{max_waiting};
};

}  // namespace gpusnoop::http

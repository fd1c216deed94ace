// Limits how often something is done, and counts the attempts over the limit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gpusnoop {

// All times are of one clock, which never goes back.
class RateLimit {
public:
    explicit RateLimit(std::uint32_t per_second) : per_second_(per_second) {}

    // Whether one more may be done now. If not, it is suppressed.
    [[nodiscard]] bool allow(std::chrono::nanoseconds now) {
        if (is_over(now)) {
            began_ = now;
            done_ = 0;
        }
        if (done_ < per_second_) {
            done_++;
            return true;
        }
        suppressed_++;
        return false;
    }

    // Whether the second that the last attempts were counted in is over.
    [[nodiscard]] bool is_over(std::chrono::nanoseconds now) const {
        return now - began_ >= std::chrono::seconds(1);
    }

    // How many attempts were suppressed since the last call.
    std::uint64_t take_suppressed() { return std::exchange(suppressed_, 0); }

private:
    std::uint32_t per_second_;
    std::uint32_t done_ = 0;
    std::uint64_t suppressed_ = 0;
    std::chrono::nanoseconds began_{};
};

// Writes the same line at most once a minute: log lines that other processes can provoke must not
// fill the log.
class LineLimit {
public:
    using Clock = std::chrono::steady_clock;

    // If the line may be written now: how often it was suppressed since it was last written.
    [[nodiscard]] std::optional<std::uint64_t> due(std::string_view line,
                                                   Clock::time_point now = Clock::now()) {
        auto known = lines_.find(line);
        if (known == lines_.end()) {
            if (lines_.size() >= max_lines) {
                std::erase_if(lines_, [&](const auto &entry) {
                    return now - entry.second.written >= between;
                });
            }
            if (lines_.size() >= max_lines) {
                return std::nullopt;  // too many different lines in this minute
            }
            lines_.emplace(line, Line{now, 0});
            return 0;
        }
        if (now - known->second.written < between) {
            known->second.held_back++;
            return std::nullopt;
        }
        known->second.written = now;
        return std::exchange(known->second.held_back, 0);
    }

private:
    static constexpr std::chrono::minutes between{1};
    static constexpr std::size_t max_lines = 64;

    struct Line {
        Clock::time_point written;
        std::uint64_t held_back = 0;
    };
    std::map<std::string, Line, std::less<>> lines_;
};

}  // namespace gpusnoop

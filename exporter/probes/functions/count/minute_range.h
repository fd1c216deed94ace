// The shortest and the longest call of the last whole minute.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace gpusnoop::probes {

// Minutes of the kernel's monotonic clock.
class MinuteExtremes {
public:
    struct Range {
        std::uint64_t min_ns;
        std::uint64_t max_ns;
        bool operator==(const Range &) const = default;
    };

    // Adds a call that ended at that time. Calls from before the last two minutes are ignored.
    void add(std::uint64_t ended_ns, std::uint64_t duration_ns) {
        const std::uint64_t minute = ended_ns / minute_ns;
        if (!now_ || minute > now_->number) {
            last_ = now_;
            now_ = Minute{minute, {duration_ns, duration_ns}};
            return;
        }
        if (minute == now_->number) {
            widen(now_->range, duration_ns);
        } else if (last_ && minute == last_->number) {
            widen(last_->range, duration_ns);
        } else if (minute + 1 == now_->number) {  // the first of its minute, but late
            last_ = Minute{minute, {duration_ns, duration_ns}};
        }
    }

    // The range of the minute before the one of `now`; nothing if no call ended in it.
    [[nodiscard]] std::optional<Range> before(std::chrono::nanoseconds now) const {
        const std::uint64_t wanted = static_cast<std::uint64_t>(now.count()) / minute_ns - 1;
        for (const auto &minute : {now_, last_}) {
            if (minute && minute->number == wanted) {
                return minute->range;
            }
        }
        return std::nullopt;
    }

    // Adds the calls of another.
    void merge(const MinuteExtremes &other) {
        for (const auto &minute : {other.last_, other.now_}) {
            if (minute) {
                add(minute->number * minute_ns, minute->range.min_ns);
                add(minute->number * minute_ns, minute->range.max_ns);
            }
        }
    }

private:
    static constexpr std::uint64_t minute_ns = 60'000'000'000;

    static void widen(Range &range, std::uint64_t duration_ns) {
        range.min_ns = std::min(range.min_ns, duration_ns);
        range.max_ns = std::max(range.max_ns, duration_ns);
    }

    struct Minute {
        std::uint64_t number;
        Range range;
    };
    std::optional<Minute> now_;
    std::optional<Minute> last_;
};

}  // namespace gpusnoop::probes

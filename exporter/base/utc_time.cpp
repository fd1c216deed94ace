#include "exporter/base/utc_time.h"

#include <spdlog/fmt/fmt.h>

#include <ctime>

namespace gpusnoop {

std::string utc_time(std::chrono::nanoseconds since_epoch) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
    const std::time_t time = static_cast<std::time_t>(seconds.count());
    std::tm utc{};
    gmtime_r(&time, &utc);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", utc.tm_year + 1900,
                       utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                       (since_epoch - seconds).count());
}

}  // namespace gpusnoop

#include "exporter/base/text/utc_time.h"

#include <spdlog/fmt/fmt.h>

#include <ctime>
#include <string_view>

namespace gpusnoop {

std::string utc_time(std::chrono::nanoseconds since_epoch, int digits) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
    const std::time_t time = static_cast<std::time_t>(seconds.count());
    std::tm utc{};
    gmtime_r(&time, &utc);
    const auto fraction = fmt::format("{:09}", (since_epoch - seconds).count());
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{}Z", utc.tm_year + 1900,
                       utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                       std::string_view(fraction).substr(0, static_cast<std::size_t>(digits)));
}

}  // namespace gpusnoop

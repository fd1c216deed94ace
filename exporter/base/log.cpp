#include "exporter/base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <mutex>
#include <utility>

#include "exporter/base/text.h"

namespace gpusnoop::log {

namespace {

// spdlog carries one string per record. Fields travel in it behind the message, each as NUL, 'b' or
// 'q' (bare or quoted), key, NUL, value; NULs in the parts themselves are replaced before. A record
// that was written through spdlog directly is a message without fields.
constexpr char kSeparator = '\0';

void append_part(std::string &payload, std::string_view part) {
    for (const char c : part) {
        if (c == kSeparator) {
            payload += "\xEF\xBF\xBD";
        } else {
            payload += c;
        }
    }
}

std::string_view take_part(std::string_view &payload) {
    const std::size_t end = payload.find(kSeparator);
    const std::string_view part = payload.substr(0, end);
    payload.remove_prefix(end == std::string_view::npos ? payload.size() : end + 1);
    return part;
}

// Between double quotes, in JSON's escapes, which read well in logfmt too. So are C1 controls
// (U+0080 to U+009F), which some terminals obey, and marks that change the direction of writing.
void append_quoted(std::string &line, std::string_view bytes) {
    line += '"';
    while (!bytes.empty()) {
        const Utf8Step step = utf8_step(bytes);
        const char first = bytes[0];
        const auto character = bytes.substr(0, step.size);
        if (!step.valid) {
            line += "\xEF\xBF\xBD";
        } else if (first == '"' || first == '\\') {
            line += '\\';
            line += first;
        } else if (first == '\n') {
            line += "\\n";
        } else if (first == '\r') {
            line += "\\r";
        } else if (first == '\t') {
            line += "\\t";
        } else if (const auto code = misleading_code(character)) {
            line += fmt::format("\\u{:04x}", *code);
        } else {
            line += character;
        }
        bytes.remove_prefix(step.size);
    }
    line += '"';
}

bool plain_in_logfmt(std::string_view value) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@+,*%()[]{}#~";
    return !value.empty() && value.find_first_not_of(kPlain) == std::string_view::npos;
}

std::string_view level_name(spdlog::level::level_enum level) {
    switch (level) {
        case spdlog::level::trace:
        case spdlog::level::debug:
            return "DEBUG";
        case spdlog::level::warn:
            return "WARN";
        case spdlog::level::err:
        case spdlog::level::critical:
            return "ERROR";
        default:
            return "INFO";
    }
}

std::string utc_time(std::chrono::system_clock::time_point when) {
    const auto since_epoch = when.time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
    const auto ms = std::chrono::floor<std::chrono::milliseconds>(since_epoch - seconds);
    const std::time_t time = static_cast<std::time_t>(seconds.count());
    std::tm utc{};
    gmtime_r(&time, &utc);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                       utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                       ms.count());
}

std::string format_logfmt(const spdlog::details::log_msg &record, std::string_view payload) {
    std::string line =
        fmt::format("time={} level={} msg=", utc_time(record.time), level_name(record.level));
    append_quoted(line, take_part(payload));
    while (!payload.empty()) {
        const std::string_view key = take_part(payload);
        const std::string_view value = take_part(payload);
        if (key.size() < 2) {
            continue;  // not from write(): a NUL in a message that came through spdlog directly
        }
        line += ' ';
        line += key.substr(1);
        line += '=';
        if (plain_in_logfmt(value)) {
            line += value;
        } else {
            append_quoted(line, value);
        }
    }
    return line;
}

std::string format_json(const spdlog::details::log_msg &record, std::string_view payload) {
    std::string line = fmt::format(R"({{"time":"{}","level":"{}","msg":)", utc_time(record.time),
                                   level_name(record.level));
    append_quoted(line, take_part(payload));
    while (!payload.empty()) {
        const std::string_view key = take_part(payload);
        const std::string_view value = take_part(payload);
        if (key.size() < 2) {
            continue;  // not from write(): a NUL in a message that came through spdlog directly
        }
        line += ',';
        append_quoted(line, key.substr(1));
        line += ':';
        if (key.front() == 'b') {
            line += value;
        } else {
            append_quoted(line, value);
        }
    }
    line += '}';
    return line;
}

class LineSink : public spdlog::sinks::base_sink<std::mutex> {
public:
    LineSink(Format format, std::FILE *out) : format_(format), out_(out) {}

    [[nodiscard]] std::uint64_t lost() const { return lost_; }

protected:
    void sink_it_(const spdlog::details::log_msg &record) override {
        const std::string_view payload(record.payload.data(), record.payload.size());
        std::string line =
            format_ == Format::json ? format_json(record, payload) : format_logfmt(record, payload);
        line += '\n';
        // One write per line, so that lines of several processes on one stderr do not mix.
        if (std::fwrite(line.data(), 1, line.size(), out_) != line.size() ||
            std::fflush(out_) != 0) {
            std::clearerr(out_);
            lost_++;
        }
    }
    void flush_() override { (void)std::fflush(out_); }

private:
    Format format_;
    std::FILE *out_;
    std::atomic<std::uint64_t> lost_ = 0;
};

spdlog::level::level_enum spdlog_level(Level level) {
    switch (level) {
        case Level::debug:
            return spdlog::level::debug;
        case Level::info:
            return spdlog::level::info;
        case Level::warn:
            return spdlog::level::warn;
        case Level::error:
            break;
    }
    return spdlog::level::err;
}

}  // namespace

Field::Field(std::string_view key, double value)
    : key_(key), value_(fmt::format("{}", value)), bare_(std::isfinite(value)) {}

Result<Level> parse_level(std::string_view name) {
    constexpr std::pair<std::string_view, Level> kLevels[] = {{"debug", Level::debug},
                                                              {"info", Level::info},
                                                              {"warn", Level::warn},
                                                              {"error", Level::error}};
    for (const auto &[known, level] : kLevels) {
        if (known == name) {
            return level;
        }
    }
    return fail("unknown log level \"" + to_valid_utf8(name, 64) +
                "\", must be debug, info, warn or error");
}

Result<Format> parse_format(std::string_view name) {
    if (name == "logfmt") {
        return Format::logfmt;
    }
    if (name == "json") {
        return Format::json;
    }
    return fail("unknown log format \"" + to_valid_utf8(name, 64) + "\", must be logfmt or json");
}

void setup(Level level, Format format, std::FILE *out) {
    auto logger = std::make_shared<spdlog::logger>("", std::make_shared<LineSink>(format, out));
    logger->set_level(spdlog_level(level));
    spdlog::set_default_logger(std::move(logger));
}

void set_level(Level level) {
    if (spdlog::logger *logger = spdlog::default_logger_raw()) {
        logger->set_level(spdlog_level(level));
    }
}

std::uint64_t lines_lost() {
    const spdlog::logger *logger = spdlog::default_logger_raw();
    if (logger == nullptr || logger->sinks().empty()) {
        return 0;
    }
    const auto *sink = dynamic_cast<const LineSink *>(logger->sinks().front().get());
    return sink == nullptr ? 0 : sink->lost();
}

void write(Level level, std::string_view message, std::span<const Field> fields) {
    spdlog::logger *logger = spdlog::default_logger_raw();
    const spdlog::level::level_enum as = spdlog_level(level);
    if (logger == nullptr || !logger->should_log(as)) {
        return;
    }
    std::string payload;
    append_part(payload, message);
    for (const Field &field : fields) {
        payload += kSeparator;
        payload += field.bare() ? 'b' : 'q';
        append_part(payload, field.key());
        payload += kSeparator;
        append_part(payload, field.value());
    }
    logger->log(as, spdlog::string_view_t(payload.data(), payload.size()));
}

}  // namespace gpusnoop::log

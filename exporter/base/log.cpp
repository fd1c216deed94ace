#include "exporter/base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <utility>

#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"

namespace gpusnoop::log {

namespace {

// The source location of records from write(): their text is a formatted line already.
constexpr spdlog::source_loc formatted{"log.cpp", 1, "write"};

// In double quotes, with JSON's escapes, which logfmt readers understand too. C1 controls (U+0080
// to U+009F), which some terminals obey, and marks that change the direction of writing are escaped
// too.
void append_quoted(std::string &line, std::string_view bytes) {
    line += '"';
    while (!bytes.empty()) {
        const Utf8Step step = utf8_step(bytes);
        const char first = bytes[0];
        const auto character = bytes.substr(0, step.size);
        if (!step.valid || first == '\0') {
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
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@+,*%()[]{}#~";
    return !value.empty() && value.find_first_not_of(plain) == std::string_view::npos;
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

void append_field(std::string &line, Format format, const Field &field) {
    if (format == Format::json) {
        line += ',';
        append_quoted(line, field.key());
        line += ':';
    } else {
        line += ' ';
        line += field.key();
        line += '=';
    }
    if (format == Format::json ? field.bare() : plain_in_logfmt(field.value())) {
        line += field.value();
    } else {
        append_quoted(line, field.value());
    }
}

std::string format_line(Format format, spdlog::level::level_enum level, std::string_view message,
                        std::span<const Field> fields) {
    const std::string time = utc_time(std::chrono::system_clock::now().time_since_epoch(), 3);
    const std::string_view name = level_name(level);
    std::string line = format == Format::json
                           ? fmt::format(R"({{"time":"{}","level":"{}","msg":)", time, name)
                           : fmt::format("time={} level={} msg=", time, name);
    append_quoted(line, message);
    for (const Field &field : fields) {
        append_field(line, format, field);
    }
    line += format == Format::json ? "}" : "";
    return line;
}

class LineSink : public spdlog::sinks::base_sink<std::mutex> {
public:
    LineSink(Format format, std::FILE *out) : format_(format), out_(out) {}

    [[nodiscard]] Format format() const { return format_; }
    [[nodiscard]] std::uint64_t lost() const { return lost_; }

protected:
    void sink_it_(const spdlog::details::log_msg &record) override {
        std::string line(record.payload.data(), record.payload.size());
        if (record.source.filename != formatted.filename) {
            line = format_line(format_, record.level, line, {});  // was not written by write()
        }
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
    const Format format_;
    std::FILE *const out_;
    std::atomic<std::uint64_t> lost_ = 0;
};

// Null until setup().
const LineSink *sink_of(const spdlog::logger *logger) {
    return logger == nullptr || logger->sinks().empty()
               ? nullptr
               : dynamic_cast<const LineSink *>(logger->sinks().front().get());
}

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
    constexpr std::pair<std::string_view, Level> levels[] = {{"debug", Level::debug},
                                                             {"info", Level::info},
                                                             {"warn", Level::warn},
                                                             {"error", Level::error}};
    for (const auto &[known, level] : levels) {
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
    const LineSink *sink = sink_of(spdlog::default_logger_raw());
    return sink == nullptr ? 0 : sink->lost();
}

void write(Level level, std::string_view message, std::span<const Field> fields) {
    spdlog::logger *logger = spdlog::default_logger_raw();
    const spdlog::level::level_enum as = spdlog_level(level);
    if (logger == nullptr || !logger->should_log(as)) {
        return;
    }
    const LineSink *sink = sink_of(logger);
    const Format format = sink == nullptr ? Format::logfmt : sink->format();
    logger->log(formatted, as, format_line(format, as, message, fields));
}

}  // namespace gpusnoop::log

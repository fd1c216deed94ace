// The program's log: one line per record on stderr, as logfmt or as JSON.
//
// A message is a fixed sentence; what varies goes into fields:
//     log::info("attached", {{"library", path}, {"functions", 6}});
// Values may be bytes from anywhere (paths, process names): they cannot break a line, leave their
// quotes, or send control characters to a terminal.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop::log {

enum class Level { debug, info, warn, error };
enum class Format { logfmt, json };

// "debug", "info", "warn" or "error"; "logfmt" or "json".
[[nodiscard]] Result<Level> parse_level(std::string_view name);
[[nodiscard]] Result<Format> parse_format(std::string_view name);

// Makes spdlog's default logger write records of `level` and above to `out`, which stays the
// caller's and must outlive the logger. Call it at start, before other threads log.
void setup(Level level, Format format, std::FILE *out = stderr);

// Applies to records written from now on. For any thread.
void set_level(Level level);

// Lines that could not be written since setup(): the disk is full, or the pipe has no reader. For
// any thread.
[[nodiscard]] std::uint64_t lines_lost();

// One key and its value. Numbers and booleans stay such in JSON. Holds a copy of the value, and
// refers to the key, which is a literal.
class Field {
public:
    template <typename T>
        requires std::convertible_to<const T &, std::string_view>
    Field(std::string_view key, const T &value) : key_(key), value_(std::string_view(value)) {}
    Field(std::string_view key, bool value)
        : key_(key), value_(value ? "true" : "false"), bare_(true) {}
    template <typename T>
        requires(std::integral<T> && !std::same_as<T, bool>)
    Field(std::string_view key, T value) : key_(key), value_(std::to_string(value)), bare_(true) {}
    Field(std::string_view key, double value);

    [[nodiscard]] std::string_view key() const { return key_; }
    [[nodiscard]] std::string_view value() const { return value_; }
    // Whether the value is a JSON number or literal, to be written without quotes.
    [[nodiscard]] bool bare() const { return bare_; }

private:
    std::string_view key_;
    std::string value_;
    bool bare_ = false;
};

using Fields = std::initializer_list<Field>;

void write(Level level, std::string_view message, std::span<const Field> fields);

inline void write(Level level, std::string_view message, Fields fields = {}) {
    write(level, message, std::span(fields.begin(), fields.size()));
}

inline void debug(std::string_view message, Fields fields = {}) {
    write(Level::debug, message, fields);
}
inline void info(std::string_view message, Fields fields = {}) {
    write(Level::info, message, fields);
}
inline void warn(std::string_view message, Fields fields = {}) {
    write(Level::warn, message, fields);
}
inline void error(std::string_view message, Fields fields = {}) {
    write(Level::error, message, fields);
}

}  // namespace gpusnoop::log

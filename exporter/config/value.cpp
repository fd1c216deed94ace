#include "exporter/config/value.h"

#include <yaml-cpp/node/detail/iterator.h>
#include <yaml-cpp/node/impl.h>
#include <yaml-cpp/node/iterator.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "exporter/base/text/text.h"
#include "exporter/config/units.h"

namespace gpusnoop::config {

namespace {

// yaml-cpp gives plain values the tag "?" and quoted ones "!"; any other tag is in the file.
bool has_explicit_tag(const YAML::Node &node) {
    return !node.Tag().empty() && node.Tag() != "?" && node.Tag() != "!";
}

std::string out_of_range(const std::string &min, const std::string &max, const std::string &value) {
    return "must be between " + min + " and " + max + ", is " + value;
}

}  // namespace

Position position_of(const YAML::Node &node) {
    const YAML::Mark mark = node.Mark();
    return {std::max(mark.line, 0), std::max(mark.column, 0)};
}

std::string describe(const YAML::Node &node) {
    switch (node.Type()) {
        case YAML::NodeType::Scalar:
            return in_quotes(node.Scalar());
        case YAML::NodeType::Sequence:
            return "a list";
        case YAML::NodeType::Map:
            return "a mapping";
        default:
            return "nothing";
    }
}

Value::Value(const YAML::Node &node, std::string path, Position fallback, Problems &problems)
    : node_(node),
      path_(std::move(path)),
      at_(node_.IsNull() || !node_.IsDefined() ? fallback : position_of(node_)),
      problems_(&problems) {}

bool Value::is_mapping() const {
    return node_.IsMap();
}

bool Value::is_word(std::string_view word) const {
    if (node_.IsScalar()) {
        return node_.Scalar() == word;
    }
    const std::string_view written = problems_->line_from(position_of(node_));
    return node_.IsNull() && written.starts_with(word) &&
           (written.size() == word.size() ||
            std::string_view(" \t\r,}]#").find(written[word.size()]) != std::string_view::npos);
}

std::optional<std::string> Value::text(std::string_view expected, bool plain) const {
    if (!node_.IsScalar()) {
        wrong_type(expected);
        return std::nullopt;
    }
    if (has_explicit_tag(node_)) {
        reject("tags are not supported, remove " + in_quotes(node_.Tag()));
        return std::nullopt;
    }
    if (plain && node_.Tag() == "!") {
        reject("expected " + std::string(expected) + ", got the text " + describe(node_) +
               ": remove the quotes");
        return std::nullopt;
    }
    return node_.Scalar();
}

std::optional<bool> Value::boolean() const {
    constexpr std::string_view expected_text = "true or false";
    const auto read = text(expected_text, true);
    if (read && *read != "true" && *read != "false") {
        wrong_type(expected_text);
        return std::nullopt;
    }
    return read ? std::optional(*read == "true") : std::nullopt;
}

std::optional<std::uint32_t> Value::integer(std::uint32_t min, std::uint32_t max) const {
    constexpr std::string_view expected_text = "a whole number";
    const auto read = text(expected_text, true);
    if (!read) {
        return std::nullopt;
    }
    std::int64_t parsed = 0;
    const char *end = read->data() + read->size();
    const auto [stop, error] = std::from_chars(read->data(), end, parsed);
    if (stop != end || error == std::errc::invalid_argument) {
        wrong_type(expected_text);
        return std::nullopt;
    }
    if (rejects_leading_zero(*read)) {
        return std::nullopt;
    }
    if (error != std::errc{} || parsed < min || parsed > max) {
        reject(out_of_range(std::to_string(min), std::to_string(max),
                            read->size() > 32 ? in_quotes(*read) : *read));
        return std::nullopt;
    }
    return static_cast<std::uint32_t>(parsed);
}

template <typename T>
std::optional<T> Value::between(std::string_view expected,
                                std::optional<T> (*parse)(std::string_view),
                                std::string (*write)(T), T min, T max) const {
    const auto read = text(expected);
    if (!read) {
        return std::nullopt;
    }
    const auto parsed = parse(*read);
    if (!parsed) {
        wrong_type(expected);
        return std::nullopt;
    }
    if (rejects_leading_zero(*read)) {
        return std::nullopt;
    }
    if (*parsed < min || *parsed > max) {
        reject(out_of_range(write(min), write(max), *read));
        return std::nullopt;
    }
    return parsed;
}

std::optional<std::uint32_t> Value::percent(std::uint32_t max) const {
    return between("0 or a share such as 5%", parse_percent, percent_text, 0U, max);
}

std::optional<std::chrono::milliseconds> Value::duration(std::chrono::milliseconds min,
                                                         std::chrono::milliseconds max) const {
    return between("a duration such as 500ms, 10s, 5m or 1h", parse_duration, to_text, min, max);
}

std::optional<std::uint32_t> Value::size(std::uint32_t min, std::uint32_t max) const {
    const auto read = between("a size in bytes such as 65536, 64KiB or 4MiB", parse_size, size_text,
                              std::uint64_t{min}, std::uint64_t{max});
    if (read && !std::has_single_bit(*read)) {
        reject("must be a power of two, is " + node_.Scalar());
        return std::nullopt;
    }
    return read ? std::optional(static_cast<std::uint32_t>(*read)) : std::nullopt;
}

std::optional<std::size_t> Value::choice(const std::vector<std::string> &names) const {
    const auto read = text(one_of(names));
    if (!read) {
        return std::nullopt;
    }
    const auto found = std::find(names.begin(), names.end(), *read);
    if (found == names.end()) {
        wrong_type(one_of(names));
        return std::nullopt;
    }
    return static_cast<std::size_t>(found - names.begin());
}

std::optional<std::vector<Value>> Value::list(std::string_view expected, std::string_view items,
                                              std::size_t min, std::size_t max) const {
    if (!node_.IsSequence()) {
        wrong_type(expected);
        return std::nullopt;
    }
    const std::size_t size = node_.size();
    if (size < min || size > max) {
        reject("must name " + std::to_string(min) + " to " + std::to_string(max) + " " +
               std::string(items) + ", names " + std::to_string(size));
        return std::nullopt;
    }
    std::vector<Value> values;
    values.reserve(size);
    for (const auto &element : node_) {
        values.emplace_back(element, path_ + "[" + std::to_string(values.size()) + "]", at_,
                            *problems_);
    }
    return values;
}

void Value::wrong_type(std::string_view expected) const {
    reject("expected " + std::string(expected) + ", got " + describe(node_));
}

bool Value::rejects_leading_zero(std::string_view number) const {
    const bool leads =
        number.size() > 1 && number[0] == '0' && number[1] >= '0' && number[1] <= '9';
    if (leads) {
        reject(in_quotes(number) +
               " begins with 0, by which many readers of YAML take it for octal: leave that out");
    }
    return leads;
}

void Value::reject(std::string_view sentence) const {
    problems_->add(at_, path_, sentence);
}

}  // namespace gpusnoop::config

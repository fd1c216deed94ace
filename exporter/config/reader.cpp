#include "exporter/config/reader.h"

#include <yaml-cpp/node/detail/iterator.h>
#include <yaml-cpp/node/impl.h>
#include <yaml-cpp/node/iterator.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "exporter/config/units.h"

namespace gpusnoop::config {

namespace {

constexpr std::size_t kMaxGlobs = 64;
constexpr std::size_t kMaxFileName = 255;
constexpr std::string_view kWholeNumber = "a whole number";

std::string describe(const YAML::Node &node) {
    switch (node.Type()) {
        case YAML::NodeType::Scalar:
            return quoted(node.Scalar());
        case YAML::NodeType::Sequence:
            return "a list";
        case YAML::NodeType::Map:
            return "a mapping";
        default:
            return "nothing";
    }
}

// yaml-cpp gives plain values the tag "?" and quoted ones "!"; anything else was written out.
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

Section::Section(const YAML::Node &node, std::string path, Position at, Problems &problems)
    : path_(std::move(path)), problems_(&problems) {
    if (node.IsNull() || !node.IsDefined()) {
        return;
    }
    if (!node.IsMap()) {
        problems_->add(at, path_, "expected a mapping of keys to values, got " + describe(node));
        return;
    }
    std::map<std::string, int> first_lines;
    for (const auto &pair : node) {
        const Position key_at = position_of(pair.first);
        if (!pair.first.IsScalar()) {
            problems_->add(key_at, path_,
                           "expected a word as the key, got " + describe(pair.first));
            continue;
        }
        const std::string &key = pair.first.Scalar();
        const auto [first, inserted] = first_lines.emplace(key, key_at.line);
        if (!inserted) {
            problems_->add(key_at, path_of(key),
                           "given twice, first on line " + std::to_string(first->second + 1));
            continue;
        }
        entries_.push_back({key, pair.second, key_at});
    }
}

Section Section::section(const std::string &key) {
    const Entry *entry = find(key);
    return entry == nullptr
               ? Section(YAML::Node(), path_of(key), {}, *problems_)
               : Section(entry->node, path_of(key), value_position(*entry), *problems_);
}

void Section::boolean(const std::string &key, bool &value) {
    constexpr std::string_view kExpected = "true or false";
    const Entry *entry = find(key);
    const auto text = entry == nullptr ? std::nullopt : scalar(*entry, kExpected, true);
    if (!text) {
        return;
    }
    if (*text != "true" && *text != "false") {
        wrong_type(*entry, kExpected);
        return;
    }
    value = *text == "true";
}

void Section::text(const std::string &key, std::string &value) {
    const Entry *entry = find(key);
    if (auto text = entry == nullptr ? std::nullopt : scalar(*entry, "a text", false)) {
        value = *std::move(text);
    }
}

void Section::integer(const std::string &key, std::uint32_t &value, std::uint32_t min,
                      std::uint32_t max) {
    if (const Entry *entry = find(key)) {
        number(*entry, value, min, max);
    }
}

void Section::duration(const std::string &key, std::chrono::milliseconds &value,
                       std::chrono::milliseconds min, std::chrono::milliseconds max) {
    constexpr std::string_view kExpected = "a duration such as 500ms, 10s, 5m or 1h";
    const Entry *entry = find(key);
    const auto text = entry == nullptr ? std::nullopt : scalar(*entry, kExpected, false);
    if (!text) {
        return;
    }
    const auto parsed = parse_duration(*text);
    if (!parsed) {
        wrong_type(*entry, kExpected);
    } else if (*parsed < min || *parsed > max) {
        problem(*entry, out_of_range(to_text(min), to_text(max), *text));
    } else {
        value = *parsed;
    }
}

void Section::size(const std::string &key, std::uint32_t &value, std::uint32_t min,
                   std::uint32_t max) {
    constexpr std::string_view kExpected = "a size in bytes such as 65536, 64KiB or 4MiB";
    const Entry *entry = find(key);
    const auto text = entry == nullptr ? std::nullopt : scalar(*entry, kExpected, false);
    if (!text) {
        return;
    }
    const auto parsed = parse_size(*text);
    if (!parsed) {
        wrong_type(*entry, kExpected);
    } else if (*parsed < min || *parsed > max) {
        problem(*entry, out_of_range(size_text(min), size_text(max), *text));
    } else if (!std::has_single_bit(*parsed)) {
        problem(*entry, "must be a power of two, is " + *text);
    } else {
        value = static_cast<std::uint32_t>(*parsed);
    }
}

void Section::file_name_globs(const std::string &key, std::vector<std::string> &value) {
    const Entry *entry = find(key);
    if (entry == nullptr) {
        return;
    }
    if (!entry->node.IsSequence()) {
        wrong_type(*entry, "a list of file names");
        return;
    }
    if (entry->node.size() == 0 || entry->node.size() > kMaxGlobs) {
        problem(*entry, "must name 1 to " + std::to_string(kMaxGlobs) + " files, names " +
                            std::to_string(entry->node.size()));
        return;
    }
    std::vector<std::string> globs;
    for (const auto &element : entry->node) {
        const Entry item{key + "[" + std::to_string(globs.size()) + "]", element, entry->key_at};
        const std::string glob = scalar(item, "a file name", false).value_or("?");
        if (glob.empty() || glob.size() > kMaxFileName) {
            problem(item, "must be 1 to " + std::to_string(kMaxFileName) + " bytes long, is " +
                              std::to_string(glob.size()));
        } else if (glob.find('/') != std::string::npos) {
            problem(item, "must be a file name without a directory, is " + quoted(glob));
        }
        globs.push_back(glob);
    }
    value = std::move(globs);
}

void Section::budgets(const std::string &key, std::map<std::string, std::uint32_t> &value,
                      std::uint32_t min, std::uint32_t max, std::span<const std::string> metrics) {
    const Entry *entry = find(key);
    if (entry == nullptr) {
        return;
    }
    const std::vector<std::string> known(metrics.begin(), metrics.end());
    Section names(entry->node, path_of(key), value_position(*entry), *problems_);
    for (const Entry &budget : names.entries_) {
        if (!is_metric_name(budget.key)) {
            problems_->add(budget.key_at, names.path_,
                           quoted(budget.key) + " is not a metric name");
        } else if (!known.empty() &&
                   std::find(known.begin(), known.end(), budget.key) == known.end()) {
            problems_->add(budget.key_at, names.path_of(budget.key),
                           "unknown metric" + did_you_mean(budget.key, known));
        } else {
            names.number(budget, value[budget.key], min, max);
        }
    }
}

void Section::finish() {
    for (const Entry &entry : entries_) {
        if (std::find(known_.begin(), known_.end(), entry.key) == known_.end()) {
            problems_->add(entry.key_at, path_of(entry.key),
                           "unknown key" + did_you_mean(entry.key, known_));
        }
    }
}

void Section::reject(const std::string &key, std::string_view sentence) {
    if (const Entry *entry = find(key)) {
        problem(*entry, sentence);
    }
}

const Section::Entry *Section::find(const std::string &key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        known_.push_back(key);
    }
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry &entry) { return entry.key == key; });
    return found == entries_.end() ? nullptr : &*found;
}

std::optional<std::string> Section::scalar(const Entry &entry, std::string_view expected,
                                           bool plain) {
    if (!entry.node.IsScalar()) {
        wrong_type(entry, expected);
        return std::nullopt;
    }
    if (has_explicit_tag(entry.node)) {
        problem(entry, "tags are not supported, remove " + quoted(entry.node.Tag()));
        return std::nullopt;
    }
    if (plain && entry.node.Tag() == "!") {
        problem(entry, "expected " + std::string(expected) + ", got the text " +
                           describe(entry.node) + ": remove the quotes");
        return std::nullopt;
    }
    return entry.node.Scalar();
}

void Section::number(const Entry &entry, std::uint32_t &value, std::uint32_t min,
                     std::uint32_t max) {
    const auto text = scalar(entry, kWholeNumber, true);
    if (!text) {
        return;
    }
    std::int64_t parsed = 0;
    const char *end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, parsed);
    if (stop != end || error == std::errc::invalid_argument) {
        wrong_type(entry, kWholeNumber);
    } else if (error != std::errc{} || parsed < min || parsed > max) {
        problem(entry, out_of_range(std::to_string(min), std::to_string(max),
                                    text->size() > 32 ? quoted(*text) : *text));
    } else {
        value = static_cast<std::uint32_t>(parsed);
    }
}

std::optional<std::size_t> Section::choice_index(const std::string &key,
                                                 const std::vector<std::string> &names) {
    const Entry *entry = find(key);
    const auto text = entry == nullptr ? std::nullopt : scalar(*entry, one_of(names), false);
    if (!text) {
        return std::nullopt;
    }
    const auto found = std::find(names.begin(), names.end(), *text);
    if (found == names.end()) {
        wrong_type(*entry, one_of(names));
        return std::nullopt;
    }
    return static_cast<std::size_t>(found - names.begin());
}

void Section::wrong_type(const Entry &entry, std::string_view expected) {
    problem(entry, "expected " + std::string(expected) + ", got " + describe(entry.node));
}

void Section::problem(const Entry &entry, std::string_view sentence) {
    problems_->add(value_position(entry), path_of(entry.key), sentence);
}

std::string Section::path_of(std::string_view key) const {
    std::string path = path_.empty() ? "" : path_ + ".";
    // Keys are the file's: an unknown one may hold anything.
    const std::string shown = quoted(key);
    return path + shown.substr(1, shown.size() - 2);
}

Position Section::value_position(const Entry &entry) {
    // A value that is not there has no place of its own.
    return entry.node.IsNull() ? entry.key_at : position_of(entry.node);
}

}  // namespace gpusnoop::config

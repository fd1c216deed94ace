#include "exporter/config/reader.h"

#include <yaml-cpp/node/detail/iterator.h>
#include <yaml-cpp/node/impl.h>
#include <yaml-cpp/node/iterator.h>

#include <algorithm>

#include "exporter/base/text/text.h"
#include "exporter/config/units.h"

namespace gpusnoop::config {

namespace {

constexpr std::size_t max_globs = 64;
constexpr std::size_t max_file_name = 255;
constexpr std::size_t kMaxTexts = 1'000;
constexpr std::uint32_t min_ring = 4U << 10U;
constexpr std::uint32_t max_ring = 256U << 20U;

std::optional<std::vector<std::string>> read_file_name_globs(const Value &list) {
    const auto items = list.list("a list of file names", "files", 1, max_globs);
    if (!items) {
        return std::nullopt;
    }
    std::vector<std::string> globs;
    for (const Value &item : *items) {
        const std::string glob = item.text("a file name").value_or("?");
        if (glob.empty() || glob.size() > max_file_name) {
            item.reject("must be 1 to " + std::to_string(max_file_name) + " bytes long, is " +
                        std::to_string(glob.size()));
        } else if (glob.find('/') != std::string::npos) {
            item.reject("must be a file name without a directory, is " + in_quotes(glob));
        }
        globs.push_back(glob);
    }
    return globs;
}

// The texts without the wrong ones and without repetitions.
std::optional<std::vector<std::string>> read_texts(
    const Value &list, std::string_view what,
    const std::function<std::string(const std::string &)> &problem_of) {
    const auto items = list.list("a list of " + std::string(what), what, 0, kMaxTexts);
    if (!items) {
        return std::nullopt;
    }
    std::vector<std::string> texts;
    for (const Value &item : *items) {
        const auto text = item.text(what);
        if (!text) {
            continue;
        }
        if (const std::string wrong = problem_of(*text); !wrong.empty()) {
            item.reject(wrong);
        } else if (std::ranges::find(texts, *text) != texts.end()) {
            item.reject(in_quotes(*text) + " is in the list twice");
        } else {
            texts.push_back(*text);
        }
    }
    return texts;
}

void read_budgets(const Value &mapping, std::map<std::string, std::uint32_t> &value,
                  std::uint32_t min, std::uint32_t max, std::span<const std::string> metrics) {
    const std::vector<std::string> known(metrics.begin(), metrics.end());
    const Section names(mapping);
    for (const Section::Entry &budget : names.entries()) {
        if (!is_metric_name(budget.key)) {
            mapping.problems().add(budget.key_at, mapping.path(),
                                   in_quotes(budget.key) + " is not a metric name");
        } else if (!known.empty() && std::ranges::find(known, budget.key) == known.end()) {
            mapping.problems().add(budget.key_at, budget.value.path(),
                                   "unknown metric" + did_you_mean(budget.key, known));
        } else if (const auto number = budget.value.integer(min, max)) {
            value[budget.key] = *number;
        }
    }
}

}  // namespace

Section::Section(const Value &mapping, Values *values) : mapping_(mapping), values_(values) {
    const YAML::Node &node = mapping_.node();
    if (node.IsNull() || !node.IsDefined()) {
        return;
    }
    if (!node.IsMap()) {
        mapping_.wrong_type("a mapping of keys to values");
        return;
    }
    Problems &problems = mapping_.problems();
    std::map<std::string, int> first_lines;
    for (const auto &pair : node) {
        const Position key_at = position_of(pair.first);
        if (!pair.first.IsScalar()) {
            problems.add(key_at, mapping_.path(),
                         "expected a word as the key, got " + describe(pair.first));
            continue;
        }
        const std::string &key = pair.first.Scalar();
        const auto [first, inserted] = first_lines.emplace(key, key_at.line);
        if (!inserted) {
            problems.add(key_at, path_of(key),
                         "given twice, first on line " + std::to_string(first->second + 1));
            continue;
        }
        entries_.push_back({key, key_at, Value(pair.second, path_of(key), key_at, problems)});
    }
}

Section Section::section(const std::string &key) {
    const Value *value = find(key);
    return Section(
        value == nullptr ? Value(YAML::Node(), path_of(key), {}, mapping_.problems()) : *value,
        values_);
}

void Section::boolean(const std::string &key, bool &value) {
    const Value *entry = find(key);
    value = entry == nullptr ? value : entry->boolean().value_or(value);
    note(key, std::string(value ? "true" : "false"));
}

void Section::text(const std::string &key, std::string &value) {
    const Value *entry = find(key);
    if (auto text = entry == nullptr ? std::nullopt : entry->text("a text")) {
        value = *std::move(text);
    }
    note(key, value);
}

void Section::integer(const std::string &key, std::uint32_t &value, std::uint32_t min,
                      std::uint32_t max) {
    const Value *entry = find(key);
    value = entry == nullptr ? value : entry->integer(min, max).value_or(value);
    note(key, std::to_string(value));
}

void Section::percent(const std::string &key, std::uint32_t &value, std::uint32_t max) {
    const Value *entry = find(key);
    value = entry == nullptr ? value : entry->percent(max).value_or(value);
    note(key, percent_text(value));
}

void Section::duration(const std::string &key, std::chrono::milliseconds &value,
                       std::chrono::milliseconds min, std::chrono::milliseconds max) {
    const Value *entry = find(key);
    value = entry == nullptr ? value : entry->duration(min, max).value_or(value);
    note(key, to_text(value));
}

void Section::size(const std::string &key, std::uint32_t &value, std::uint32_t min,
                   std::uint32_t max) {
    const Value *entry = find(key);
    value = entry == nullptr ? value : entry->size(min, max).value_or(value);
    note(key, std::to_string(value));
}

void Section::ring_bytes(const std::string &key, std::uint32_t &value) {
    size(key, value, min_ring, max_ring);
}

void Section::absolute_path(const std::string &key, std::string &value) {
    text(key, value);
    if (!value.starts_with('/')) {
        reject(key, in_quotes(value) + " does not begin with /: an absolute path is needed");
    }
}

void Section::file_name_globs(const std::string &key, std::vector<std::string> &value) {
    const Value *entry = find(key);
    if (auto globs = entry == nullptr ? std::nullopt : read_file_name_globs(*entry)) {
        value = *std::move(globs);
    }
    note(key, value);
}

void Section::texts(const std::string &key, std::string_view what, std::vector<std::string> &value,
                    const std::function<std::string(const std::string &)> &problem_of) {
    const Value *entry = find(key);
    if (auto texts = entry == nullptr ? std::nullopt : read_texts(*entry, what, problem_of)) {
        value = *std::move(texts);
    }
    note(key, value);
}

void Section::budgets(const std::string &key, std::map<std::string, std::uint32_t> &value,
                      std::uint32_t min, std::uint32_t max, std::span<const std::string> metrics) {
    if (const Value *entry = find(key)) {
        read_budgets(*entry, value, min, max, metrics);
    }
    std::vector<std::string> texts;
    for (const auto &[metric, budget] : value) {
        texts.push_back(metric + " " + std::to_string(budget));
    }
    note(key, texts);
}

void Section::note(const std::string &key, std::string text) {
    if (values_ != nullptr) {
        values_->set(path_of(key), std::move(text));
    }
}

void Section::note(const std::string &key, const std::vector<std::string> &texts) {
    std::string all;
    for (const std::string &text : texts) {
        all += std::to_string(text.size()) + ':' + text;
    }
    note(key, std::move(all));
}

void Section::set_live(const std::string &key) {
    if (values_ != nullptr) {
        values_->set_live(path_of(key));
    }
}

void Section::accept_old_name(const std::string &key, const std::string &old) {
    const auto entry_of = [&](const std::string &name) {
        return std::ranges::find(entries_, name, &Entry::key);
    };
    const auto found = entry_of(old);
    if (found == entries_.end()) {
        return;
    }
    if (entry_of(key) != entries_.end()) {
        mapping_.problems().add(found->key_at, found->value.path(),
                                "is the old name of " + key + ", which is given too");
        known_.push_back(old);
        return;
    }
    found->key = key;
}

const Value *Section::find(const std::string &key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        known_.push_back(key);
    }
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry &entry) { return entry.key == key; });
    return found == entries_.end() ? nullptr : &found->value;
}

void Section::finish() {
    for (const Entry &entry : entries_) {
        if (std::find(known_.begin(), known_.end(), entry.key) == known_.end()) {
            mapping_.problems().add(entry.key_at, entry.value.path(),
                                    "unknown key" + did_you_mean(entry.key, known_));
        }
    }
}

void Section::reject(const std::string &key, std::string_view sentence) {
    if (const Value *entry = find(key)) {
        entry->reject(sentence);
    }
}

std::string Section::path_of(std::string_view key) const {
    const std::string &own = mapping_.path();
    // An unknown key comes from the file and may contain anything.
    const std::string shown = in_quotes(key);
    return (own.empty() ? "" : own + ".") + shown.substr(1, shown.size() - 2);
}

}  // namespace gpusnoop::config

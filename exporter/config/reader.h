// A strict reader of one YAML mapping: it knows which keys were asked for and complains about the
// rest, about duplicates (of which yaml-cpp silently keeps the first) and about wrong values.
#pragma once

#include <yaml-cpp/node/node.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/config/problems.h"
#include "exporter/config/value.h"

namespace gpusnoop::config {

// One mapping of the file. Every read function leaves its value as it is, the default, when the key
// is absent or wrong, and writes what is wrong to the Problems, which must outlive the Section.
class Section {
public:
    struct Entry {
        std::string key;
        Position key_at;
        Value value;
    };

    // A value without content (`web:` and nothing else) is an empty mapping.
    explicit Section(const Value &mapping);

    [[nodiscard]] Section section(const std::string &key);
    void boolean(const std::string &key, bool &value);
    void text(const std::string &key, std::string &value);
    void integer(const std::string &key, std::uint32_t &value, std::uint32_t min,
                 std::uint32_t max);
    void duration(const std::string &key, std::chrono::milliseconds &value,
                  std::chrono::milliseconds min, std::chrono::milliseconds max);
    // A power of two.
    void size(const std::string &key, std::uint32_t &value, std::uint32_t min, std::uint32_t max);
    void file_name_globs(const std::string &key, std::vector<std::string> &value);
    // A mapping of metric names to numbers; `metrics` are the valid names, empty if not known.
    void budgets(const std::string &key, std::map<std::string, std::uint32_t> &value,
                 std::uint32_t min, std::uint32_t max, std::span<const std::string> metrics);

    template <typename T, std::size_t N>
    void choice(const std::string &key, T &value,
                const std::pair<std::string_view, T> (&choices)[N]) {
        std::vector<std::string> names;
        for (const auto &[name, unused] : choices) {
            names.emplace_back(name);
        }
        const Value *entry = find(key);
        if (const auto index = entry == nullptr ? std::nullopt : entry->choice(names)) {
            value = choices[*index].second;
        }
    }

    // The value of `key` if the file has it, for what only the caller can read.
    [[nodiscard]] const Value *find(const std::string &key);
    // All there is, where the keys are names that the user chose; finish() is not for these.
    [[nodiscard]] const std::vector<Entry> &entries() const { return entries_; }

    // Reports every key that no function above asked for. Call it last.
    void finish();

    // A problem with the value of `key`, if the file has it, for checks that only the caller knows.
    void reject(const std::string &key, std::string_view sentence);
    // A problem with the mapping as a whole.
    void reject(std::string_view sentence) const { mapping_.reject(sentence); }

    // The dotted path of a key of this mapping.
    [[nodiscard]] std::string path_of(std::string_view key) const;

private:
    Value mapping_;
    std::vector<Entry> entries_;
    std::vector<std::string> known_;
};

}  // namespace gpusnoop::config

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

namespace gpusnoop::config {

// Where `node` starts.
[[nodiscard]] Position position_of(const YAML::Node &node);

// One mapping of the file. Every read function leaves its value as it is, the default, when the key
// is absent or wrong, and writes what is wrong to the Problems, which must outlive the Section.
class Section {
public:
    // `path` is the dotted path of the mapping, empty for the root. `at` is where to report that
    // `node` is no mapping. A node without a value (`web:` and nothing else) is an empty mapping.
    Section(const YAML::Node &node, std::string path, Position at, Problems &problems);

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
        if (const std::optional<std::size_t> index = choice_index(key, names)) {
            value = choices[*index].second;
        }
    }

    // Reports every key that no function above asked for. Call it last.
    void finish();

    // A problem with the value of `key`, for checks that only the caller knows.
    void reject(const std::string &key, std::string_view sentence);

private:
    struct Entry {
        std::string key;
        YAML::Node node;
        Position key_at;
    };

    // The entry of `key` if the file has it; notes that the key is known.
    const Entry *find(const std::string &key);
    // The entry's scalar. `expected` says what belongs there, where there is something else. With
    // `plain`, a scalar in quotes is something else.
    std::optional<std::string> scalar(const Entry &entry, std::string_view expected, bool plain);
    void number(const Entry &entry, std::uint32_t &value, std::uint32_t min, std::uint32_t max);
    std::optional<std::size_t> choice_index(const std::string &key,
                                            const std::vector<std::string> &names);
    void wrong_type(const Entry &entry, std::string_view expected);
    void problem(const Entry &entry, std::string_view sentence);
    [[nodiscard]] std::string path_of(std::string_view key) const;
    [[nodiscard]] static Position value_position(const Entry &entry);

    std::string path_;
    Problems *problems_;
    std::vector<Entry> entries_;
    std::vector<std::string> known_;
};

}  // namespace gpusnoop::config

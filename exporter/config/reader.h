// A strict reader of one YAML mapping: it knows which keys were read and reports all other keys,
// duplicates (yaml-cpp silently keeps the first) and wrong values.
#pragma once

#include <yaml-cpp/node/node.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/config/blocks.h"
#include "exporter/config/document.h"
#include "exporter/config/value.h"

namespace gpusnoop::config {

// One mapping of the file. If the key is absent or wrong, every read function keeps the default in
// its value, and reports mistakes to the Problems, which must outlive the Section.
class Section {
public:
    struct Entry {
        std::string key;
        Position key_at;
        Value value;
    };

    // A value without content (`web:` and nothing else) is an empty mapping. `values`, if not null,
    // receives every value that is read here and in subsections, absent or not.
    explicit Section(const Value &mapping, Values *values = nullptr);

    [[nodiscard]] Section section(const std::string &key);
    void boolean(const std::string &key, bool &value);
    void text(const std::string &key, std::string &value);
    void integer(const std::string &key, std::uint32_t &value, std::uint32_t min,
                 std::uint32_t max);
    // 0, or a share from 1% to `max`.
    void percent(const std::string &key, std::uint32_t &value, std::uint32_t max);
    void duration(const std::string &key, std::chrono::milliseconds &value,
                  std::chrono::milliseconds min, std::chrono::milliseconds max);
    // A power of two.
    void size(const std::string &key, std::uint32_t &value, std::uint32_t min, std::uint32_t max);
    // The size of a ring buffer between the kernel and the exporter.
    void ring_bytes(const std::string &key, std::uint32_t &value);
    // An absolute path.
    void absolute_path(const std::string &key, std::string &value);
    void file_name_globs(const std::string &key, std::vector<std::string> &value);
    // A list of at most 1000 texts, each of them once: `what` is "names of processes" or the like.
    // `problem_of` returns the mistake in a text, "" if it has none.
    void texts(const std::string &key, std::string_view what, std::vector<std::string> &value,
               const std::function<std::string(const std::string &)> &problem_of);
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
        for (const auto &[name, named] : choices) {
            if (named == value) {
                note(key, std::string(name));
            }
        }
    }

    // The file may still call `key` by the name that it had in earlier versions; messages then do
    // as the file does.
    void accept_old_name(const std::string &key, const std::string &old);

    // The value of `key` if the file has it, for what only the caller can read; who then says with
    // note() what was read.
    [[nodiscard]] const Value *find(const std::string &key);
    void note(const std::string &key, std::string text);
    void note(const std::string &key, const std::vector<std::string> &texts);
    // A change of this key, which has been read, takes effect while the exporter runs.
    void set_live(const std::string &key);
    // All entries, for a mapping whose keys are names chosen by the user; do not call finish()
    // then.
    [[nodiscard]] const std::vector<Entry> &entries() const { return entries_; }

    // Reports every key that was not read. Call it last.
    void finish();

    // Reports a problem with the value of `key`, if the file has it, for checks that only the
    // caller knows.
    void reject(const std::string &key, std::string_view sentence);
    // Reports a problem with the mapping as a whole.
    void reject(std::string_view sentence) const { mapping_.reject(sentence); }

    // The dotted path of a key of this mapping.
    [[nodiscard]] std::string path_of(std::string_view key) const;

private:
    Value mapping_;
    std::vector<Entry> entries_;
    std::vector<std::string> known_;
    Values *values_;
};

}  // namespace gpusnoop::config

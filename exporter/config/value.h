// One value of the file with its place: what it is read as, and what is wrong with it.
#pragma once

#include <yaml-cpp/node/node.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/config/problems.h"

namespace gpusnoop::config {

// Where `node` starts.
[[nodiscard]] Position position_of(const YAML::Node &node);

// What a message calls `node`: its text in quotes, or what kind of thing it is.
[[nodiscard]] std::string describe(const YAML::Node &node);

// Each read function gives nothing where the value is wrong, and writes what is wrong to the
// Problems, which must outlive the Value.
class Value {
public:
    // `path` is the dotted path of the value. `fallback` is its place where there is no value at
    // all (`web:` and nothing else), which has no place of its own.
    Value(const YAML::Node &node, std::string path, Position fallback, Problems &problems);
    Value(const Value &) = default;
    // Assigning to a YAML::Node changes the document.
    Value &operator=(const Value &) = delete;

    [[nodiscard]] const YAML::Node &node() const { return node_; }
    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] Position position() const { return at_; }
    [[nodiscard]] Problems &problems() const { return *problems_; }
    [[nodiscard]] bool is_mapping() const;
    // Whether this is just that word, for those that are no value of the type that is expected.
    // "null" is one that YAML reads as nothing.
    [[nodiscard]] bool is_word(std::string_view word) const;

    // A scalar. `expected` says what belongs here, where there is something else. With `plain`, a
    // scalar in quotes is something else.
    [[nodiscard]] std::optional<std::string> text(std::string_view expected,
                                                  bool plain = false) const;
    [[nodiscard]] std::optional<bool> boolean() const;
    [[nodiscard]] std::optional<std::uint32_t> integer(std::uint32_t min, std::uint32_t max) const;
    [[nodiscard]] std::optional<std::chrono::milliseconds> duration(
        std::chrono::milliseconds min, std::chrono::milliseconds max) const;
    // A power of two.
    [[nodiscard]] std::optional<std::uint32_t> size(std::uint32_t min, std::uint32_t max) const;
    // The index of the scalar in `names`.
    [[nodiscard]] std::optional<std::size_t> choice(const std::vector<std::string> &names) const;
    // The items of a list of `min` to `max` things: `expected` is "a list of ...", `items` the
    // "...".
    [[nodiscard]] std::optional<std::vector<Value>> list(std::string_view expected,
                                                         std::string_view items, std::size_t min,
                                                         std::size_t max) const;

    void wrong_type(std::string_view expected) const;
    void reject(std::string_view sentence) const;

private:
    // Whether 0100 is meant to be 64 or 100 is not known.
    [[nodiscard]] bool rejects_leading_zero(std::string_view number) const;

    YAML::Node node_;
    std::string path_;
    Position at_;
    Problems *problems_;
};

}  // namespace gpusnoop::config

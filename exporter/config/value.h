// Reads one value of the file, with its position, and reports mistakes in it.
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

#include "exporter/config/document.h"

namespace gpusnoop::config {

// Where `node` starts.
[[nodiscard]] Position position_of(const YAML::Node &node);

// The name of `node` in a message: its text in quotes, or its type.
[[nodiscard]] std::string describe(const YAML::Node &node);

// If the value is wrong, each read function returns an empty optional and reports the mistake to
// the Problems, which must outlive the Value.
class Value {
public:
    // `path` is the dotted path of the value. `fallback` is the position of an empty value (`web:`
    // and nothing else), which has none of its own.
    Value(const YAML::Node &node, std::string path, Position fallback, Problems &problems);
    Value(const Value &) = default;
    // Assigning to a YAML::Node changes the document.
    Value &operator=(const Value &) = delete;

    [[nodiscard]] const YAML::Node &node() const { return node_; }
    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] Position position() const { return at_; }
    [[nodiscard]] Problems &problems() const { return *problems_; }
    [[nodiscard]] bool is_mapping() const;
    // Whether this is exactly that word: for special words instead of a value of the expected type.
    // YAML reads the word "null" as an empty value.
    [[nodiscard]] bool is_word(std::string_view word) const;

    // A scalar. `expected` names the expected value in the message about any other. With `plain`, a
    // scalar in quotes is a mistake.
    [[nodiscard]] std::optional<std::string> text(std::string_view expected,
                                                  bool plain = false) const;
    [[nodiscard]] std::optional<bool> boolean() const;
    [[nodiscard]] std::optional<std::uint32_t> integer(std::uint32_t min, std::uint32_t max) const;
    // 0, or a share from 1% to `max`.
    [[nodiscard]] std::optional<std::uint32_t> percent(std::uint32_t max) const;
    [[nodiscard]] std::optional<std::chrono::milliseconds> duration(
        std::chrono::milliseconds min, std::chrono::milliseconds max) const;
    // A power of two.
    [[nodiscard]] std::optional<std::uint32_t> size(std::uint32_t min, std::uint32_t max) const;
    // The index of the scalar in `names`.
    [[nodiscard]] std::optional<std::size_t> choice(const std::vector<std::string> &names) const;
    // A list of `min` to `max` items: `expected` is "a list of ...", `items` the "...".
    [[nodiscard]] std::optional<std::vector<Value>> list(std::string_view expected,
                                                         std::string_view items, std::size_t min,
                                                         std::size_t max) const;

    void wrong_type(std::string_view expected) const;
    void reject(std::string_view sentence) const;

private:
    template <typename T>
    [[nodiscard]] std::optional<T> between(std::string_view expected,
                                           std::optional<T> (*parse)(std::string_view),
                                           std::string (*write)(T), T min, T max) const;
    // It is not clear whether 0100 means 64 or 100.
    [[nodiscard]] bool rejects_leading_zero(std::string_view number) const;

    YAML::Node node_;
    std::string path_;
    Position at_;
    Problems *problems_;
};

}  // namespace gpusnoop::config

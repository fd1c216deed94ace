// Collects all mistakes of a configuration file, in the file's order.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::config {

// A position in the file, counted from 0 as yaml-cpp does.
struct Position {
    int line = 0;
    int column = 0;
};

class Problems {
public:
    // `file` names the file in messages, `source` is its text, which must outlive this object.
    explicit Problems(std::string_view file, std::string_view source = {});

    // The file's text from that position to the end of the line.
    [[nodiscard]] std::string_view line_from(Position at) const;

    // `key` is the dotted path of the setting, empty for the whole file.
    void add(Position at, std::string_view key, std::string_view sentence);

    [[nodiscard]] bool empty() const { return list_.empty(); }

    // "file:line:column: key: sentence", one line each, the first hundred.
    [[nodiscard]] std::string text() const;

private:
    struct Problem {
        Position at;
        std::string text;
    };
    std::string file_;
    std::string_view source_;
    std::vector<std::size_t> line_starts_;
    std::vector<Problem> list_;
};

// `, did you mean "pid"?` if `word` is probably a misspelling of one of `known`, else empty.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       const std::vector<std::string> &known);

// "session, multi or perf".
[[nodiscard]] std::string one_of(const std::vector<std::string> &names);

}  // namespace gpusnoop::config

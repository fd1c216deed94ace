// A YAML file that a person wrote: read whole, checked, and every problem with its place.
#pragma once

#include <yaml-cpp/node/node.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/read_file.h"
#include "exporter/base/result.h"

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

// Hands the one document in `text` to `read`, which reports mistakes to the Problems. An error's
// message holds every problem, one per line and in the file's order: "file:line:column: key.path:
// sentence", line and column from 1 (the column counts bytes). `name` is the file's name in them.
[[nodiscard]] Result<> read_document(
    std::string_view text, const std::string &name,
    const std::function<void(const YAML::Node &, Problems &)> &read);

// The whole file, which may have 1 MiB at most.
[[nodiscard]] Result<std::string> read_config_file(const std::string &path,
                                                   ReadingDeadline until = reading_deadline());

}  // namespace gpusnoop::config

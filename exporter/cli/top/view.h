// What `top` shows of an exporter: one page of it, asked for again and again.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/cli/top/client/answer.h"
#include "exporter/cli/top/text.h"

namespace gpusnoop::top {

class View {
public:
    View() = default;
    virtual ~View() = default;
    View(const View &) = delete;
    View &operator=(const View &) = delete;

    // The path and query to ask for.
    [[nodiscard]] virtual std::string target() const = 0;
    // Takes a response of the exporter, or the error of a request.
    virtual void take(const Result<Answer> &answer) = 0;
    // Another page, which is target() now, belongs to what the last response said.
    [[nodiscard]] virtual bool wants_more() const { return false; }

    // The problem of the last response; empty if there is none.
    [[nodiscard]] virtual const std::string &problem() const = 0;
    // Whether the last response was good, and whether any was.
    [[nodiscard]] virtual bool answers() const = 0;
    [[nodiscard]] virtual bool has_answered() const = 0;

    // One line about the exporter.
    [[nodiscard]] virtual std::string head() const = 0;
    // A line of titles, and one for each of the first `most` rows, with others that belong to it
    // below, from the last two good responses. Empty if the last response was not good, or the
    // first one. Lines contain no control characters, and may be long; what matters most is in the
    // first `columns` characters.
    [[nodiscard]] virtual std::optional<std::vector<std::string>> lines(
        std::size_t most, std::size_t columns = any_width) const = 0;
    // What the columns are.
    [[nodiscard]] virtual std::vector<std::string> help() const = 0;
};

}  // namespace gpusnoop::top

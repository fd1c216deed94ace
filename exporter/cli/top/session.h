// Polling one exporter: what it says now, against what it said before.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/cli/top/answer.h"
#include "exporter/cli/top/table.h"

namespace gpusnoop::top {

class Session {
public:
    Session(std::string address, Sort sort) : address_(std::move(address)), sort_(sort) {}

    // An answer of the exporter, or why there is none.
    void take(const Result<Answer> &answer);

    // What is to be said of the last answer; empty if all is well.
    [[nodiscard]] const std::string &problem() const { return problem_; }
    // Whether the last answer was good, and whether any was.
    [[nodiscard]] bool answers() const { return answers_; }
    [[nodiscard]] bool has_answered() const { return last_.has_value(); }
    // Of the last two good answers, if the last answer was good, too.
    [[nodiscard]] const std::optional<std::vector<Row>> &rows() const { return rows_; }
    [[nodiscard]] std::string head() const;

private:
    [[nodiscard]] Result<Sample> read(const Result<Answer> &answer) const;

    std::string address_;
    Sort sort_;
    std::optional<Sample> last_;
    std::optional<std::vector<Row>> rows_;
    std::string problem_;
    bool answers_ = false;
};

}  // namespace gpusnoop::top

// Polls one exporter: compares its counts with the previous ones.
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

    // Takes a response of the exporter, or the error of a request.
    void take(const Result<Answer> &answer);

    // The problem of the last response; empty if there is none.
    [[nodiscard]] const std::string &problem() const { return problem_; }
    // Whether the last response was good, and whether any was.
    [[nodiscard]] bool answers() const { return answers_; }
    [[nodiscard]] bool has_answered() const { return last_.has_value(); }
    // From the last two good responses, if the last response was good, too.
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

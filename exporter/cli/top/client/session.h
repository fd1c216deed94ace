// `top` on functions: compares an exporter's counts with the previous ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/cli/top/client/answer.h"
#include "exporter/cli/top/table.h"
#include "exporter/cli/top/view.h"

namespace gpusnoop::top {

class Session final : public View {
public:
    Session(std::string address, Sort sort, By by = By::function)
        : address_(std::move(address)), sort_(sort), by_(by) {}

    [[nodiscard]] std::string target() const override {
        return std::string("/api/v1/functions") + (by_ == By::process ? "?by=process" : "");
    }
    void take(const Result<Answer> &answer) override;
    [[nodiscard]] const std::string &problem() const override { return problem_; }
    [[nodiscard]] bool answers() const override { return answers_; }
    [[nodiscard]] bool has_answered() const override { return last_.has_value(); }
    [[nodiscard]] std::string head() const override;
    [[nodiscard]] std::optional<std::vector<std::string>> lines(
        std::size_t most, std::size_t columns = any_width) const override {
        return rows_ ? std::optional(table_lines(*rows_, most, columns)) : std::nullopt;
    }
    [[nodiscard]] std::vector<std::string> help() const override { return functions_help(); }
    // From the last two good responses, if the last response was good, too.
    [[nodiscard]] const std::optional<std::vector<Row>> &rows() const { return rows_; }

private:
    [[nodiscard]] Result<Sample> read(const Result<Answer> &answer) const;

    std::string address_;
    Sort sort_;
    By by_;
    std::optional<Sample> last_;
    std::optional<std::vector<Row>> rows_;
    std::string problem_;
    bool answers_ = false;
};

}  // namespace gpusnoop::top

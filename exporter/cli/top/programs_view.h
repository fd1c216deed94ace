// `top` on GPU programs: what each holds and does.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "exporter/cli/top/client/address.h"
#include "exporter/cli/top/hanging.h"
#include "exporter/cli/top/programs.h"
#include "exporter/cli/top/view.h"

namespace gpusnoop::top {

class ProgramsView final : public View {
public:
    ProgramsView(Address address, std::string telemetry_path, bool by_errors = false)
        : address_(std::move(address)),
          telemetry_path_(std::move(telemetry_path)),
          by_errors_(by_errors) {}

    [[nodiscard]] std::string target() const override {
        return wants_hanging_ ? hanging_target : telemetry_path_;
    }
    void take(const Result<Answer> &answer) override;
    [[nodiscard]] bool wants_more() const override { return wants_hanging_; }
    [[nodiscard]] const std::string &problem() const override { return problem_; }
    [[nodiscard]] bool answers() const override { return answers_; }
    [[nodiscard]] bool has_answered() const override { return last_.has_value(); }
    [[nodiscard]] std::string head() const override;
    [[nodiscard]] std::optional<std::vector<std::string>> lines(
        std::size_t most, std::size_t columns = any_width) const override;
    [[nodiscard]] std::vector<std::string> help() const override { return programs_help(); }

private:
    using Clock = std::chrono::steady_clock;
    struct Taken {
        ProgramsSample sample;
        Clock::time_point at;
    };
    [[nodiscard]] Result<ProgramsSample> read(const Result<Answer> &answer) const;
    void take_hanging(const Result<Answer> &answer);

    const Address address_;
    const std::string telemetry_path_;
    const bool by_errors_;                 // not by memory
    std::optional<ProgramsSample> first_;  // since the exporter's start
    std::optional<Taken> last_;
    std::optional<std::vector<ProgramRow>> rows_;
    std::string problem_;
    bool answers_ = false;
    bool wants_hanging_ = false;  // a program hangs: where?
};

}  // namespace gpusnoop::top

#include "exporter/cli/top/programs_view.h"

#include <algorithm>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/cli/top/client/ask.h"

namespace gpusnoop::top {

Result<ProgramsSample> ProgramsView::read(const Result<Answer> &answer) const {
    if (!answer) {
        return tl::unexpected(answer.error());
    }
    if (const auto good = check(*answer, target(), address_.text()); !good) {
        return tl::unexpected(good.error());
    }
    auto sample = parse_programs(answer->body);
    return sample ? std::move(sample) : fail_in(address_.text(), sample.error());
}

// Not everybody may read that page, and nothing else depends on it.
void ProgramsView::take_hanging(const Result<Answer> &answer) {
    constexpr int ok = 200;
    if (!answer || answer->status != ok) {
        return;
    }
    if (const auto calls = parse_hanging(answer->body)) {
        for (ProgramRow &row : *rows_) {
            if (const auto call = calls->find(row.key); call != calls->end()) {
                row.hanging = call->second;
            }
        }
    }
}

void ProgramsView::take(const Result<Answer> &answer) {
    if (std::exchange(wants_hanging_, false)) {
        return take_hanging(answer);
    }
    rows_.reset();
    auto sample = read(answer);
    answers_ = sample.has_value();
    if (!sample) {
        problem_ = printable(sample.error().message);
        return;
    }
    problem_.clear();
    const auto now = Clock::now();
    if (!last_ || last_->sample.began != sample->began) {
        problem_ = last_ ? address_.text() + " was restarted: its counters begin at 0" : "";
        first_ = *sample;
    } else {
        rows_ = compare(*first_, last_->sample, *sample,
                        std::chrono::duration<double>(now - last_->at).count());
        if (by_errors_) {
            sort_by_errors(*rows_);
        }
        wants_hanging_ = std::ranges::any_of(
            *rows_, [](const ProgramRow &row) { return row.now.oldest_call_seconds > 0; });
    }
    last_ = Taken{*std::move(sample), now};
}

std::string ProgramsView::head() const {
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    return last_ ? head_line(address_.text(), last_->sample, now.count(), rows_ ? &*rows_ : nullptr)
                 : "gpusnoop_exporter at " + address_.text();
}

std::optional<std::vector<std::string>> ProgramsView::lines(std::size_t most,
                                                            std::size_t columns) const {
    return rows_ ? std::optional(table_lines(*rows_, most, columns)) : std::nullopt;
}

}  // namespace gpusnoop::top

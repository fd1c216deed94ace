#include "exporter/cli/top/client/session.h"

#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/cli/top/client/ask.h"

namespace gpusnoop::top {

Result<Sample> Session::read(const Result<Answer> &answer) const {
    if (!answer) {
        return tl::unexpected(answer.error());
    }
    if (auto usable = check(*answer, "/api/v1/functions", address_); !usable) {
        return tl::unexpected(std::move(usable.error()));
    }
    auto sample = parse_sample(answer->body);
    return sample ? std::move(sample) : fail_in(address_, sample.error());
}

void Session::take(const Result<Answer> &answer) {
    rows_.reset();
    auto sample = read(answer);
    answers_ = sample.has_value();
    if (!sample) {
        problem_ = printable(sample.error().message);
        return;
    }
    problem_.clear();
    if (last_) {
        rows_ = compare(*last_, *sample);
        if (rows_) {
            sort_rows(*rows_, sort_);
        } else {
            problem_ = address_ + " was restarted: its counters begin at 0";
        }
    }
    last_ = std::move(*sample);
}

std::string Session::head() const {
    return last_ ? head_line(address_, *last_, rows_ ? &*rows_ : nullptr)
                 : "gpusnoop_exporter at " + address_;
}

}  // namespace gpusnoop::top

#include "exporter/cli/top/client/session.h"

#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/cli/top/text.h"

namespace gpusnoop::top {

namespace {

// A server's error message: its first line, shortened.
std::string sentence_of(const std::string &body) {
    constexpr std::size_t most = 160;
    return cut(printable(body.substr(0, body.find('\n'))), most);
}

}  // namespace

Result<Sample> Session::read(const Result<Answer> &answer) const {
    constexpr int ok = 200;
    constexpr int unauthorized = 401;
    constexpr int not_found = 404;
    constexpr int unavailable = 503;
    if (!answer) {
        return tl::unexpected(answer.error());
    }
    if (answer->status == unauthorized) {
        return fail(address_ + " needs a valid login: --login-file or --netrc");
    }
    if (answer->status == not_found) {
        return fail(address_ +
                    " has no /api/v1/functions: it is not a gpusnoop_exporter, or an older one");
    }
    if (answer->status == unavailable) {
        return fail(address_ + " shows no functions (the probe functions may be off): " +
                    sentence_of(answer->body));
    }
    if (answer->status != ok) {
        return fail(address_ + " answered " + std::to_string(answer->status) + ": " +
                    sentence_of(answer->body));
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

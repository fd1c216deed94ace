#include "exporter/config/problems.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "exporter/base/text/text.h"

namespace gpusnoop::config {

namespace {

// More than anyone reads; a file of another type can have a problem in each line.
constexpr std::size_t max_shown = 100;

// How many characters must be changed, added, left out or swapped with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before(b.size() + 1);
    std::vector<std::size_t> last(b.size() + 1);
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) {
        last[j] = j;
    }
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        std::swap(before, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

}  // namespace

Problems::Problems(std::string_view file, std::string_view source)
    : file_(printable(file)), source_(source), line_starts_({0}) {
    for (std::size_t at = 0; (at = source_.find('\n', at)) != std::string_view::npos;) {
        line_starts_.push_back(++at);
    }
}

std::string_view Problems::line_from(Position at) const {
    const auto line = static_cast<std::size_t>(std::max(at.line, 0));
    const auto column = static_cast<std::size_t>(std::max(at.column, 0));
    if (line >= line_starts_.size() || line_starts_[line] + column > source_.size()) {
        return "";
    }
    const std::string_view rest = source_.substr(line_starts_[line] + column);
    return rest.substr(0, rest.find('\n'));
}

void Problems::add(Position at, std::string_view key, std::string_view sentence) {
    std::string text =
        file_ + ":" + std::to_string(at.line + 1) + ":" + std::to_string(at.column + 1) + ": ";
    if (!key.empty()) {
        text += key;
        text += ": ";
    }
    text += sentence;
    list_.push_back({at, std::move(text)});
}

std::string Problems::text() const {
    std::vector<Problem> sorted = list_;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Problem &a, const Problem &b) {
        return std::tie(a.at.line, a.at.column) < std::tie(b.at.line, b.at.column);
    });
    std::string all;
    for (std::size_t i = 0; i < sorted.size() && i < max_shown; ++i) {
        all += i == 0 ? "" : "\n";
        all += sorted[i].text;
    }
    if (sorted.size() > max_shown) {
        all +=
            "\n" + file_ + ": and " + std::to_string(sorted.size() - max_shown) + " more problems";
    }
    return all;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string> &known) {
    std::string_view best;
    // A third of the word may differ: "pdi" is pid, "foo" is no key. Long words are not keys, and
    // would make the comparison slow.
    std::size_t allowed = word.size() > 128 ? 0 : std::max<std::size_t>(word.size() / 3, 1);
    for (const std::string &candidate : known) {
        const std::size_t distance = allowed == 0 ? 1 : edit_distance(word, candidate);
        if (distance <= allowed) {
            best = candidate;
            allowed = distance - 1;
        }
        if (allowed == 0) {
            break;
        }
    }
    return best.empty() ? "" : ", did you mean " + in_quotes(best) + "?";
}

std::string one_of(const std::vector<std::string> &names) {
    std::string all;
    for (std::size_t i = 0; i < names.size(); ++i) {
        all += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
        all += names[i];
    }
    return all;
}

}  // namespace gpusnoop::config

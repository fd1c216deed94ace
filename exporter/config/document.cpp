#include "exporter/config/document.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <optional>
#include <sstream>
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

namespace {

constexpr std::size_t max_file_bytes = 1U << 20U;

Position position_at(std::string_view text, std::size_t offset) {
    const std::string_view before = text.substr(0, offset);
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    return {static_cast<int>(std::count(before.begin(), before.end(), '\n')),
            static_cast<int>(offset - line_start)};
}

// Bytes that yaml-cpp must not get: it treats 0x04 as the end of the file, guesses UTF-16 from
// NULs, and passes broken UTF-8 on.
std::optional<std::pair<std::size_t, std::string>> find_bad_byte(std::string_view text) {
    const std::size_t invalid = find_invalid_utf8(text);
    const std::string_view valid = text.substr(0, invalid);
    const auto control = std::find_if(valid.begin(), valid.end(), [](char c) {
        return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') ||
               c == 0x7F;
    });
    if (control != valid.end()) {
        return std::pair(static_cast<std::size_t>(control - valid.begin()),
                         "not a text file: it holds a control character");
    }
    if (invalid != std::string_view::npos) {
        return std::pair(invalid, "not a text file: it is not valid UTF-8");
    }
    return std::nullopt;
}

// Takes part in parsing only to learn where documents start.
class DocumentStarts : public YAML::EventHandler {
public:
    [[nodiscard]] const std::vector<Position> &positions() const { return positions_; }

    void OnDocumentStart(const YAML::Mark &mark) override {
        positions_.push_back({mark.line, mark.column});
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark &, YAML::anchor_t) override {}
    void OnAlias(const YAML::Mark &, YAML::anchor_t) override {}
    void OnScalar(const YAML::Mark &, const std::string &, YAML::anchor_t,
                  const std::string &) override {}
    void OnSequenceStart(const YAML::Mark &, const std::string &, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {}
    void OnSequenceEnd() override {}
    void OnMapStart(const YAML::Mark &, const std::string &, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {}
    void OnMapEnd() override {}

private:
    std::vector<Position> positions_;
};

// Where the second document starts, if there is one. YAML::LoadAll could find it, too, but on
// "&a,b" it makes documents without end, until memory runs out.
std::optional<Position> find_second_document(const std::string &text) {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    DocumentStarts starts;
    while (starts.positions().size() < 2 && parser.HandleNextDocument(starts)) {
    }
    return starts.positions().size() < 2 ? std::nullopt : std::optional(starts.positions()[1]);
}

}  // namespace

Result<> read_document(std::string_view text, const std::string &name,
                       const std::function<void(const YAML::Node &, Problems &)> &read) {
    if (text.size() > max_file_bytes) {
        return fail(printable(name) + ": larger than 1 MiB, which no configuration is", EFBIG);
    }
    Problems problems(name, text);
    if (const auto bad = find_bad_byte(text)) {
        problems.add(position_at(text, bad->first), "", bad->second);
        return fail(problems.text());
    }
    try {
        const std::string copy(text);
        if (const auto second = find_second_document(copy)) {
            problems.add(*second, "", "holds more than one YAML document");
        } else {
            read(YAML::Load(copy), problems);
        }
    } catch (const YAML::DeepRecursion &error) {
        problems.add({error.mark.line, error.mark.column}, "", "nested too deeply");
    } catch (const YAML::Exception &error) {
        problems.add({error.mark.line, error.mark.column}, "", "not valid YAML: " + error.msg);
    } catch (const std::exception &error) {
        return fail(printable(name) + ": cannot be read as YAML: " + error.what());
    }
    if (!problems.empty()) {
        return fail(problems.text());
    }
    return {};
}

Result<std::string> read_config_file(const std::string &path, ReadingDeadline until) {
    auto text = read_text(path, max_file_bytes, until);
    if (!text) {
        const bool too_large = text.error().code == EFBIG;
        return fail(printable(path) + ": " + text.error().message +
                        (too_large ? ", which no configuration is" : ""),
                    text.error().code);
    }
    return text;
}

}  // namespace gpusnoop::config

#include "exporter/config/document.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "exporter/base/text/text.h"

namespace gpusnoop::config {

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

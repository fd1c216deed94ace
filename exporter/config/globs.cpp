#include "exporter/config/globs.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "exporter/base/text/text.h"
#include "exporter/config/document.h"

namespace gpusnoop::config {

namespace {

constexpr std::array<std::string_view, 12> classes = {"alnum", "alpha", "blank", "cntrl",
                                                      "digit", "graph", "lower", "print",
                                                      "punct", "space", "upper", "xdigit"};

// Reads one [set] of a glob.
class SetReader {
public:
    // `at` is where the set begins.
    SetReader(std::string_view glob, std::size_t at) : glob_(glob), at_(at) {}

    // The mistake in the set, "" if it has none; then end() is behind its ].
    std::string read() {
        at_++;
        if (has('!') || has('^')) {
            at_++;
        }
        // A ] that comes first is a member.
        for (bool first = true; at_ < glob_.size() && (first || !has(']')); first = false) {
            if (std::string wrong = has_named_member() ? read_class() : read_range();
                !wrong.empty()) {
                return wrong;
            }
        }
        if (at_ == glob_.size()) {
            return unclosed();
        }
        at_++;
        return "";
    }

    [[nodiscard]] std::size_t end() const { return at_; }

private:
    [[nodiscard]] bool has(char c, std::size_t ahead = 0) const {
        return at_ + ahead < glob_.size() && glob_[at_ + ahead] == c;
    }

    [[nodiscard]] bool has_named_member() const {
        return has('[') && (has(':', 1) || has('.', 1) || has('=', 1));
    }

    [[nodiscard]] std::string unclosed() const {
        return in_quotes(glob_) + " has a [ without its ]: write [[] for the character itself";
    }

    // [:alpha:]
    std::string read_class() {
        const std::size_t end = glob_.find(":]", at_ + 2);
        if (!has(':', 1) || end == std::string_view::npos) {
            return in_quotes(glob_) + " has a [" + glob_[at_ + 1] +
                   " in a set: put the [ last in it, or write a class such as [:digit:]";
        }
        const std::string_view name = glob_.substr(at_ + 2, end - at_ - 2);
        if (std::find(classes.begin(), classes.end(), name) == classes.end()) {
            return in_quotes(glob_) + " has the unknown class " + in_quotes(name) +
                   did_you_mean(name, {classes.begin(), classes.end()});
        }
        at_ = end + 2;
        return "";
    }

    // a or a-z
    std::string read_range() {
        const unsigned char low = read_character();
        unsigned char high = low;
        const bool is_range = has('-') && at_ + 1 < glob_.size() && !has(']', 1);
        if (is_range) {
            at_++;
            high = read_character();
        }
        if (at_ > glob_.size()) {  // ended in a backslash
            at_ = glob_.size();
        }
        if (low >= 0x80 || high >= 0x80) {
            return in_quotes(glob_) + " has a character in a set that is not ASCII";
        }
        if (high < low) {
            return in_quotes(glob_) + " has the range " + static_cast<char>(low) + "-" +
                   static_cast<char>(high) + ", which is empty";
        }
        return "";
    }

    unsigned char read_character() {
        at_ += has('\\') ? 1 : 0;
        const char c = at_ < glob_.size() ? glob_[at_] : '\\';
        at_++;
        return static_cast<unsigned char>(c);
    }

    std::string_view glob_;
    std::size_t at_;
};

}  // namespace

bool is_glob(std::string_view text) {
    return text.find_first_of("*?[\\") != std::string_view::npos;
}

std::string glob_problem(std::string_view glob) {
    if (glob.empty()) {
        return "must not be empty";
    }
    for (std::size_t at = 0; at < glob.size();) {
        if (glob[at] == '\\') {
            if (at + 1 == glob.size()) {
                return in_quotes(glob) + " ends with a \\, which has nothing to stand before";
            }
            at += 2;
        } else if (glob[at] == '[') {
            SetReader set(glob, at);
            if (std::string wrong = set.read(); !wrong.empty()) {
                return wrong;
            }
            at = set.end();
        } else {
            at++;
        }
    }
    return "";
}

}  // namespace gpusnoop::config

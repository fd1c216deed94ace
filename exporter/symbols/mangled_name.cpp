// Follows https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
#include "exporter/symbols/mangled_name.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "exporter/symbols/mangled_tables.h"

namespace gpusnoop::symbols {
namespace {

constexpr std::size_t kMaxInputBytes = 16 * 1024;
constexpr std::size_t kMaxNameText = 1024;  // bytes of a qualified name; past it nothing is added
constexpr int kMaxDepth = 64;               // of types in types
constexpr std::string_view kCut = "...";    // stands for text that was too long

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

class Parser {
public:
    Parser(std::string_view input, std::size_t max_arguments)
        : rest_(input), max_arguments_(max_arguments) {}

    // <encoding> up to the end of its <name>.
    std::optional<std::string> function_name() {
        std::string text;
        take("N") ? nested_name(text) : unscoped_name(text);
        // What was read before something unknown is a name, if it got that far.
        const bool known = !failed_ || in_arguments_;
        return known && !text.empty() ? std::optional(std::move(text)) : std::nullopt;
    }

private:
    bool take(std::string_view token) {
        if (!rest_.starts_with(token)) {
            return false;
        }
        rest_.remove_prefix(token.size());
        return true;
    }

    char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
    void give_up() {
        failed_ = true;
        rest_ = {};
    }

    // Appends within a limit, so that substitutions of substitutions do not grow without end.
    static void append(std::string &text, std::string_view more, std::size_t limit) {
        if (text.size() + more.size() <= limit) {
            text += more;
        } else if (!text.ends_with(kCut)) {
            text += kCut;
        }
    }

    void add_substitution(const std::string &text) {
        substitutions_.push_back(text.size() <= kMaxNameText ? text : std::string(kCut));
    }

    // <source-name>: a decimal length and that many bytes.
    void source_name(std::string &text) {
        std::size_t length = 0;
        while (is_digit(peek()) && length <= kMaxInputBytes) {
            length = length * 10 + static_cast<std::size_t>(peek() - '0');
            rest_.remove_prefix(1);
        }
        if (length == 0 || length > rest_.size()) {
            return give_up();
        }
        std::string_view name = rest_.substr(0, length);
        rest_.remove_prefix(length);
        // GCC's and nvcc's names of an anonymous namespace: _GLOBAL__N_ and what follows.
        if (name.starts_with("_GLOBAL_") && name.size() >= 10 && name[9] == 'N') {
            name = "(anonymous namespace)";
        }
        append(text, name, kMaxNameText);
        while (take("B")) {  // abi tags, as in [abi:cxx11]
            std::string tag;
            source_name(tag);
        }
    }

    // S_, S0_, ... (base 36) or one of the names with their own letter. `text` is what it stands
    // for.
    void substitution(std::string &text) {
        for (const auto &[letter, name] : kStandardNames) {
            if (peek() == letter) {
                rest_.remove_prefix(1);
                return append(text, name, kMaxNameText);
            }
        }
        std::size_t index = 0;
        if (!take("_")) {
            do {
                const char c = peek();
                if (!is_digit(c) && (c < 'A' || c > 'Z')) {
                    return give_up();
                }
                index = index * 36 + static_cast<std::size_t>(is_digit(c) ? c - '0' : c - 'A' + 10);
                rest_.remove_prefix(1);
            } while (!take("_") && index < substitutions_.size());
            ++index;
        }
        if (index >= substitutions_.size()) {
            return give_up();
        }
        append(text, substitutions_[index], kMaxNameText);
    }

    // <nested-name> after its N: scopes and the name, up to the E.
    void nested_name(std::string &text) {
        while (take("r") || take("V") || take("K") || take("R") || take("O")) {
        }
        while (!take("E")) {
            const bool first = text.empty();
            if (first && take("S")) {
                // A scope that was named before, or std; neither is a new substitution.
                substitution(text);
            } else if (peek() == 'I' && !first) {
                template_arguments(text);
                if (!failed_ && peek() != 'E') {  // the whole is for the caller to add, or not
                    add_substitution(text);
                }
            } else if (is_digit(peek()) || peek() == 'L') {
                take("L");  // internal linkage
                if (!first) {
                    append(text, "::", kMaxNameText);
                }
                source_name(text);
                if (!failed_ && peek() != 'E') {
                    add_substitution(text);
                }
            } else {
                give_up();
            }
            if (failed_) {
                return;
            }
        }
    }

    // <unscoped-name> and its template arguments.
    void unscoped_name(std::string &text) {
        if (take("St")) {
            text = "std::";
        }
        take("L");
        if (!is_digit(peek())) {
            return give_up();
        }
        source_name(text);
        if (!failed_ && peek() == 'I') {
            add_substitution(text);
            template_arguments(text);
        }
    }

    // <template-args>, appended to the name that they belong to.
    void template_arguments(std::string &name) {
        const bool outermost = depth_ == 0;
        std::string text;
        rest_.remove_prefix(1);
        argument_list(text);
        if (failed_ && outermost) {
            in_arguments_ = true;
        }
        if (failed_ || text.find(kCut) != std::string::npos) {  // unknown, or past the limit
            text = kCut;
        }
        append(name, "<" + text + ">", kMaxNameText);
    }

    // Arguments up to their E, separated by commas.
    void argument_list(std::string &text) {
        if (++depth_ > kMaxDepth) {
            give_up();
        }
        while (!failed_ && !take("E")) {
            std::string argument;
            if (take("J")) {
                argument_list(argument);
            } else if (take("L")) {
                literal(argument);
            } else {
                type(argument);
            }
            if (!argument.empty()) {
                append(text, text.empty() ? argument : ", " + argument, max_arguments_);
            }
        }
        --depth_;
    }

    // <expr-primary> after its L: a type and a value, or a mangled name.
    void literal(std::string &text) {
        if (take("_Z")) {
            return give_up();  // a function or object: its encoding has parameters
        }
        std::string of;
        type(of);
        const bool negative = take("n");
        const std::size_t digits = rest_.find('E');
        std::string value(rest_.substr(0, digits));
        if (failed_ || digits == std::string_view::npos || value.empty() ||
            !std::all_of(value.begin(), value.end(), is_digit)) {
            return give_up();
        }
        rest_.remove_prefix(digits + 1);
        if (of == "bool" && (value == "0" || value == "1")) {
            return append(text, value == "1" ? "true" : "false", max_arguments_);
        }
        value = (negative ? "-" : "") + value;
        for (const auto &[name, suffix] : kLiteralSuffixes) {
            if (of == name) {
                return append(text, value.append(suffix), max_arguments_);
            }
        }
        append(text, "(" + of + ")" + value, max_arguments_);
    }

    // <type>. Each but a builtin one becomes a substitution.
    void type(std::string &text) {
        if (++depth_ > kMaxDepth) {
            give_up();
        }
        if (!failed_) {
            one_type(text);
        }
        --depth_;
    }

    void one_type(std::string &text) {
        for (const auto &[letters, name] : kBuiltinTypes) {
            if (take(letters)) {
                text = name;
                return;
            }
        }
        for (const auto &[letter, suffix] : kTypeSuffixes) {
            if (!take(letter)) {
                continue;
            }
            std::string qualifiers(suffix);
            if (letter == "V" && take("K")) {  // one substitution for both
                qualifiers = " const volatile";
            }
            type(text);
            append(text, qualifiers, kMaxNameText);
            return add_substitution(text);
        }
        if (take("N")) {
            nested_name(text);
            add_substitution(text);
        } else if (rest_.starts_with("St") || is_digit(peek())) {
            text = take("St") ? "std::" : "";
            source_name(text);
            add_substitution(text);
            type_arguments(text);
        } else if (take("S")) {
            substitution(text);
            type_arguments(text);
        } else {
            give_up();
        }
    }

    void type_arguments(std::string &text) {
        if (!failed_ && peek() == 'I') {
            template_arguments(text);
            add_substitution(text);
        }
    }

    std::string_view rest_;
    std::size_t max_arguments_;
    std::vector<std::string> substitutions_;
    int depth_ = 0;
    bool failed_ = false;
    bool in_arguments_ = false;  // what failed was an argument of the function's own name
};

}  // namespace

std::optional<std::string> read_mangled_name(std::string_view mangled, std::size_t max_arguments) {
    if (!mangled.starts_with("_Z")) {
        return std::nullopt;
    }
    mangled = mangled.substr(2, kMaxInputBytes);
    return Parser(mangled, max_arguments).function_name();
}

}  // namespace gpusnoop::symbols

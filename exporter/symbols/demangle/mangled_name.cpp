// Follows https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
#include "exporter/symbols/demangle/mangled_name.h"

#include <algorithm>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/symbols/demangle/mangled_parser.h"

namespace gpusnoop::symbols {
namespace {

// The last part of a qualified name, without its template arguments: a constructor's name.
std::string_view last_part(std::string_view name) {
    int depth = 0;
    std::size_t end = name.size();
    for (std::size_t at = name.size(); at-- > 0;) {
        if (name[at] == '>') {
            ++depth;
        } else if (name[at] == '<') {
            --depth;
            end = depth == 0 ? at : end;
        } else if (name[at] == ':' && depth == 0) {
            return name.substr(at + 1, end - at - 1);
        }
    }
    return name.substr(0, end);
}

}  // namespace

std::optional<std::string> MangledParser::function_name() {
    std::string text;
    name(text);
    const bool known = !failed_ || usable_;
    return known && !text.empty() ? std::optional(std::move(text)) : std::nullopt;
}

bool MangledParser::take(std::string_view token) {
    if (!rest_.starts_with(token)) {
        return false;
    }
    rest_.remove_prefix(token.size());
    return true;
}

void MangledParser::give_up() {
    failed_ = true;
    rest_ = {};
}

void MangledParser::append(std::string &text, std::string_view more, std::size_t limit) {
    if (text.size() + more.size() <= limit) {
        text += more;
    } else if (!text.ends_with(cut)) {
        text += cut;
    }
}

void MangledParser::add_substitution(const std::string &text) {
    substitutions_.push_back(text.size() <= max_name_text ? text : std::string(cut));
}

// <name>
void MangledParser::name(std::string &text) {
    if (take("N")) {
        nested_name(text);
    } else if (take("Z")) {
        local_name(text);
    } else {
        unscoped_name(text);
    }
}

// <nested-name> after its N: scopes and the name, up to the E.
void MangledParser::nested_name(std::string &text) {
    while (take("r") || take("V") || take("K") || take("R") || take("O")) {
    }
    std::string own;  // `text` may already hold the enclosing function
    while (!failed_ && !take("E")) {
        const bool first = own.empty();
        if (first && take("S")) {
            // A scope that was named before, or std; neither is a new substitution.
            substitution(own);
            continue;
        }
        if (first && take("T")) {  // of a class that is a template's parameter
            skip_index();
            own = cut;
        } else if (peek() == 'I' && !first) {
            template_arguments(own);
        } else if (!first && constructor_name(own)) {
        } else if (at_unqualified_name()) {
            if (!first) {
                append(own, "::", max_name_text);
            }
            unqualified_name(own);
        } else {
            give_up();
        }
        if (!failed_ && peek() != 'E') {  // the caller decides whether to add the whole
            add_substitution(own);
        }
    }
    append(text, own, max_name_text);
}

// <unscoped-name> and its template arguments.
void MangledParser::unscoped_name(std::string &text) {
    if (take("St")) {
        append(text, "std::", max_name_text);
    }
    if (!at_unqualified_name()) {
        return give_up();
    }
    unqualified_name(text);
    if (!failed_ && peek() == 'I') {
        add_substitution(text);
        template_arguments(text);
    }
}

// <local-name> after its Z: a function, its parameters, and an entity inside it.
void MangledParser::local_name(std::string &text) {
    if (++local_depth_ > max_local_depth) {
        return give_up();
    }
    name(text);
    if (!failed_) {
        skip_types();
        if (failed_ && depth_ == 0) {
            append(text, "::...", max_name_text);
            usable_ = true;
        }
    }
    if (!failed_) {
        append(text, "::", max_name_text);
        if (take("s")) {  // a string
            append(text, "{string}", max_name_text);
        } else {
            if (take("d")) {  // in the default argument of a parameter
                skip_index();
            }
            name(text);
        }
    }
    --local_depth_;
}

bool MangledParser::at_unqualified_name() const {
    return is_digit(peek()) || peek() == 'L' || peek() == 'U' || (peek() >= 'a' && peek() <= 'z');
}

// <unqualified-name>, except for those of constructors.
void MangledParser::unqualified_name(std::string &text) {
    take("L");  // internal linkage
    if (is_digit(peek())) {
        source_name(text);
    } else if (take("Ut")) {
        unnamed_type("unnamed", text);
    } else if (take("Ul")) {
        skip_types();
        unnamed_type("lambda", text);
    } else if (!operator_name(text)) {
        give_up();
    }
    while (take("B")) {  // abi tags, as in [abi:cxx11]
        std::string tag;
        source_name(tag);
    }
}

// A lambda or a type without a name, after its Ul or Ut. The first in its scope has no number.
void MangledParser::unnamed_type(std::string_view kind, std::string &text) {
    const std::size_t position = is_digit(peek()) ? number() + 2 : 1;
    if (!take("_")) {
        return give_up();
    }
    append(text, "{" + std::string(kind) + "#" + std::to_string(position) + "}", max_name_text);
}

// <operator-name>; false if there is none.
bool MangledParser::operator_name(std::string &text) {
    if (take("cv")) {
        std::string to;
        type(to);
        append(text, "operator " + to, max_name_text);
        return true;
    }
    if (take("li")) {
        append(text, "operator\"\"", max_name_text);
        source_name(text);
        return true;
    }
    for (const auto &[letters, symbol] : operators) {
        if (take(letters)) {
            append(text, "operator", max_name_text);
            append(text, symbol, max_name_text);
            return true;
        }
    }
    return false;
}

// <ctor-dtor-name> of the class `text`; false if there is none.
bool MangledParser::constructor_name(std::string &text) {
    const bool destructor = peek() == 'D';
    if ((!destructor && peek() != 'C') || rest_.size() < 2 || !is_digit(rest_[1])) {
        return false;
    }
    rest_.remove_prefix(2);
    append(text, (destructor ? "::~" : "::") + std::string(last_part(text)), max_name_text);
    while (take("B")) {
        std::string tag;
        source_name(tag);
    }
    return true;
}

// Decimal digits; a value longer than any input need not be exact.
std::size_t MangledParser::number() {
    std::size_t value = 0;
    while (is_digit(peek())) {
        const auto digit = static_cast<std::size_t>(peek() - '0');
        value = std::min(value * 10 + digit, max_input_bytes + 1);
        rest_.remove_prefix(1);
    }
    return value;
}

// <source-name>: a decimal length and that many bytes.
void MangledParser::source_name(std::string &text) {
    const std::size_t length = number();
    if (length == 0 || length > rest_.size()) {
        return give_up();
    }
    std::string_view source = rest_.substr(0, length);
    rest_.remove_prefix(length);
    // GCC's and nvcc's names of an anonymous namespace: _GLOBAL__N_ and what follows.
    if (source.starts_with("_GLOBAL_") && source.size() >= 10 && source[9] == 'N') {
        source = "(anonymous namespace)";
    }
    append(text, source, max_name_text);
}

// S_, S0_, ... (base 36) or one of the names with their own letter. Sets `text` to its meaning.
void MangledParser::substitution(std::string &text) {
    for (const auto &[letter, standard] : standard_names) {
        if (peek() == letter) {
            rest_.remove_prefix(1);
            return append(text, standard, max_name_text);
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
    append(text, substitutions_[index], max_name_text);
}

std::optional<std::string> read_mangled_name(std::string_view mangled, std::size_t max_arguments) {
    if (!mangled.starts_with("_Z")) {
        return std::nullopt;
    }
    return MangledParser(mangled.substr(2), max_arguments).function_name();
}

std::optional<std::size_t> count_mangled_parameters(std::string_view mangled) {
    if (!mangled.starts_with("_Z")) {
        return std::nullopt;
    }
    return MangledParser(mangled.substr(2), 0).parameter_count();
}

}  // namespace gpusnoop::symbols

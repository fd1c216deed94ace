// The types in a mangled name: template arguments, and parameters, which are only skipped.
#include <algorithm>

#include "exporter/base/text/text.h"
#include "exporter/symbols/demangle/mangled_parser.h"

namespace gpusnoop::symbols {

// <template-args>, appended to the name that they belong to.
void MangledParser::template_arguments(std::string &name) {
    const bool outermost = depth_ == 0;
    std::string text;
    rest_.remove_prefix(1);
    argument_list(text);
    if (failed_ && outermost) {
        usable_ = true;
    }
    if (failed_ || text.find(cut) != std::string::npos) {  // unknown, or over the limit
        text = cut;
    }
    append(name, (name.ends_with('<') ? " <" : "<") + text + ">", max_name_text);  // operator<
}

// Arguments up to their E, separated by commas.
void MangledParser::argument_list(std::string &text) {
    if (++depth_ > max_depth) {
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
void MangledParser::literal(std::string &text) {
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
    for (const auto &[name, suffix] : literal_suffixes) {
        if (of == name) {
            return append(text, value.append(suffix), max_arguments_);
        }
    }
    append(text, "(" + of + ")" + value, max_arguments_);
}

// <type>. Each except a builtin one becomes a substitution.
void MangledParser::type(std::string &text) {
    if (++depth_ > max_depth) {
        give_up();
    }
    if (!failed_) {
        one_type(text);
    }
    --depth_;
}

void MangledParser::one_type(std::string &text) {
    for (const auto &[letters, name] : builtin_types) {
        if (take(letters)) {
            text = name;
            return;
        }
    }
    for (const auto &[letter, suffix] : type_suffixes) {
        if (!take(letter)) {
            continue;
        }
        std::string qualifiers(suffix);
        if (letter == "V" && take("K")) {  // one substitution for both
            qualifiers = " const volatile";
        }
        type(text);
        append(text, qualifiers, max_name_text);
        return add_substitution(text);
    }
    if (take("N")) {
        // Qualifiers here belong to member functions, which are not types.
        if (std::string_view("rVKRO").find(peek()) != std::string_view::npos) {
            return give_up();
        }
        nested_name(text);
        add_substitution(text);
    } else if (take("Z")) {
        local_name(text);
        add_substitution(text);
    } else if (rest_.starts_with("St") || is_digit(peek()) || rest_.starts_with("Ul") ||
               rest_.starts_with("Ut")) {
        text = take("St") ? "std::" : "";
        unqualified_name(text);
        add_substitution(text);
        type_arguments(text);
    } else if (take("S")) {
        substitution(text);
        type_arguments(text);
    } else if (unwritten_type(text)) {
        add_substitution(text);
        type_arguments(text);
    } else {
        give_up();
    }
}

// Types that are read only to reach the text after them. False if it is another type.
bool MangledParser::unwritten_type(std::string &text) {
    std::string ignored;
    if (take("Dp")) {  // a pack
        type(ignored);
    } else if (take("F") || take("DoF")) {  // a function
        take("Y");
        skip_types();
    } else if (take("A")) {  // an array
        skip_index();
        type(ignored);
    } else if (take("M")) {  // a pointer to a member: of a class, and its type
        type(ignored);
        type(ignored);
    } else if (take("T")) {  // a template parameter
        skip_index();
    } else {
        return false;
    }
    text = cut;
    return true;
}

void MangledParser::type_arguments(std::string &text) {
    if (!failed_ && peek() == 'I') {
        template_arguments(text);
        add_substitution(text);
    }
}

void MangledParser::skip_types() {
    while (!failed_ && !take("E") && !take("RE") && !take("OE")) {
        std::string ignored;
        type(ignored);
    }
}

void MangledParser::skip_index() {
    (void)number();
    if (!take("_")) {
        give_up();
    }
}

std::optional<std::size_t> MangledParser::parameter_count() {
    std::string function;
    name(function);
    // A pack (Dp) is one type here, but any number of parameters.
    if (failed_ || function.ends_with(cut) || rest_.find("Dp") != std::string_view::npos) {
        return std::nullopt;
    }
    std::string ignored;
    if (function.ends_with('>')) {  // templates include their return type
        type(ignored);
    }
    std::size_t count = 0;
    while (!failed_ && !rest_.empty() && peek() != '.') {  // a dot starts a copy's suffix
        ignored.clear();
        type(ignored);
        count += ignored == "void" ? 0 : 1;
    }
    return failed_ ? std::nullopt : std::optional(count);
}

}  // namespace gpusnoop::symbols

#include "exporter/symbols/demangle/function_name.h"

#include <algorithm>
#include <array>

#include "exporter/base/text/text.h"
#include "exporter/symbols/demangle/mangled_name.h"

namespace gpusnoop::symbols {
namespace {

constexpr std::size_t max_template_arguments = 40;  // bytes

// The limit of a name before its beginning is cut off.
constexpr std::size_t max_uncut_bytes = 4096;

// Suffixes that GCC and clang add to the name of a copy or a part of a function, followed by a
// number or nothing. Other dots belong to the name: Go's names have them.
constexpr std::array<std::string_view, 8> part_suffixes{
    ".cold", ".part.", ".isra.", ".constprop.", ".lto_priv.", ".llvm.", ".localalias", ".clone."};

constexpr std::array<std::string_view, 11> bracket_operators{"->*", "<=>", "<<=", ">>=", "->", "<<",
                                                             ">>",  "<=",  ">=",  "<",   ">"};

std::string_view without_suffixes(std::string_view symbol) {
    std::size_t end = symbol.find('@');
    for (const std::string_view suffix : part_suffixes) {
        end = std::min(end, symbol.find(suffix));
    }
    return end == 0 ? symbol : symbol.substr(0, end);
}

// The bytes at the front that are an operator's name with brackets that do not enclose arguments.
std::size_t bracket_size(std::string_view name) {
    for (const std::string_view symbol : bracket_operators) {
        if (name.starts_with(symbol)) {
            return symbol.size();
        }
    }
    return 0;
}

// Writes "<...>" for each outermost list of template arguments.
std::string without_arguments(std::string_view name) {
    constexpr std::string_view word = "operator";
    std::string out;
    int depth = 0;
    for (std::size_t at = 0; at < name.size(); ++at) {
        if (depth == 0 && name.substr(at).starts_with(word)) {
            const std::size_t size = word.size() + bracket_size(name.substr(at + word.size()));
            out += name.substr(at, size);
            at += size - 1;
            continue;
        }
        if (name[at] == '<' && depth++ == 0) {
            out += "<...>";
        }
        if (depth == 0) {
            out += name[at];
        }
        if (name[at] == '>' && depth > 0) {
            --depth;
        }
    }
    return out;
}

}  // namespace

std::string function_name(std::string_view symbol) {
    const std::string_view plain = without_suffixes(symbol);
    const std::string name = read_mangled_name(plain, max_template_arguments)
                                 .value_or(std::string(plain.substr(0, max_uncut_bytes)));
    return shortened_name(to_valid_utf8(name, max_uncut_bytes), max_function_name_bytes);
}

std::string shortened_name(std::string name, std::size_t max_bytes) {
    if (name.size() > max_bytes) {
        // Arguments say the least, and the end of a name more than its leading namespaces.
        name = without_arguments(name);
    }
    if (name.size() > max_bytes) {
        std::size_t from = name.size() - (max_bytes - 3);
        while (from < name.size() && (static_cast<unsigned char>(name[from]) & 0xC0U) == 0x80U) {
            ++from;  // do not cut a character in two
        }
        name = "..." + name.substr(from);
    }
    return name;
}

}  // namespace gpusnoop::symbols

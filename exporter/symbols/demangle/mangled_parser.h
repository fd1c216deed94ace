// Reads a mangled name from its front; every piece of text has a limit. For mangled_name.cpp
// (names) and mangled_types.cpp (template arguments and parameters) only.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpusnoop::symbols {

// The fixed words of mangled names, as C++ spells them. For the sources of the parser only.

// <builtin-type>
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 29> builtin_types{{
    {"a", "signed char"},
    {"b", "bool"},
    {"c", "char"},
    {"d", "double"},
    {"e", "long double"},
    {"f", "float"},
    {"g", "__float128"},
    {"h", "unsigned char"},
    {"i", "int"},
    {"j", "unsigned int"},
    {"l", "long"},
    {"m", "unsigned long"},
    {"n", "__int128"},
    {"o", "unsigned __int128"},
    {"s", "short"},
    {"t", "unsigned short"},
    {"v", "void"},
    {"w", "wchar_t"},
    {"x", "long long"},
    {"y", "unsigned long long"},
    {"z", "..."},
    {"Da", "auto"},
    {"Dc", "decltype(auto)"},
    {"Di", "char32_t"},
    {"Dn", "decltype(nullptr)"},
    {"Ds", "char16_t"},
    {"Du", "char8_t"},
    {"DF16_", "_Float16"},
    {"DF16b", "std::bfloat16_t"},
}};

// <substitution>s with their own letter, after the S
inline constexpr std::array<std::pair<char, std::string_view>, 7> standard_names{{
    {'t', "std"},
    {'a', "std::allocator"},
    {'b', "std::basic_string"},
    {'s', "std::string"},
    {'i', "std::istream"},
    {'o', "std::ostream"},
    {'d', "std::iostream"},
}};

// The suffix that a letter before a <type> adds
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 5> type_suffixes{
    {{"P", "*"}, {"R", "&"}, {"O", "&&"}, {"K", " const"}, {"V", " volatile"}}};

// The suffix of a type's literals; other types are written in front, as in (char)65
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 6> literal_suffixes{
    {{"int", ""},
     {"unsigned int", "u"},
     {"long", "l"},
     {"unsigned long", "ul"},
     {"long long", "ll"},
     {"unsigned long long", "ull"}}};

// <operator-name>s, and the text after the word "operator"
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 48> operators{
    {{"nw", " new"}, {"na", " new[]"}, {"dl", " delete"}, {"da", " delete[]"}, {"aw", " co_await"},
     {"ps", "+"},    {"ng", "-"},      {"ad", "&"},       {"de", "*"},         {"co", "~"},
     {"pl", "+"},    {"mi", "-"},      {"ml", "*"},       {"dv", "/"},         {"rm", "%"},
     {"an", "&"},    {"or", "|"},      {"eo", "^"},       {"aS", "="},         {"pL", "+="},
     {"mI", "-="},   {"mL", "*="},     {"dV", "/="},      {"rM", "%="},        {"aN", "&="},
     {"oR", "|="},   {"eO", "^="},     {"ls", "<<"},      {"rs", ">>"},        {"lS", "<<="},
     {"rS", ">>="},  {"eq", "=="},     {"ne", "!="},      {"lt", "<"},         {"gt", ">"},
     {"le", "<="},   {"ge", ">="},     {"ss", "<=>"},     {"nt", "!"},         {"aa", "&&"},
     {"oo", "||"},   {"pp", "++"},     {"mm", "--"},      {"cm", ","},         {"pm", "->*"},
     {"pt", "->"},   {"cl", "()"},     {"ix", "[]"}}};

class MangledParser {
public:
    static constexpr std::size_t max_input_bytes = 16 * 1024;
    static constexpr std::size_t max_name_text = 1024;  // bytes of a name; nothing is added over it
    static constexpr int max_depth = 64;                // of types in types
    static constexpr int max_local_depth = 16;          // of functions in functions
    static constexpr std::string_view cut = "...";      // stands for text that is not written

    // `input` is the text after the _Z.
    MangledParser(std::string_view input, std::size_t max_arguments)
        : rest_(input.substr(0, max_input_bytes)), max_arguments_(max_arguments) {}

    // <encoding> up to the end of its <name>.
    std::optional<std::string> function_name();
    // The same for its <bare-function-type>: how many parameters it lists.
    std::optional<std::size_t> parameter_count();

private:
    // These read the input. After giving up, the input is empty.
    bool take(std::string_view token);
    [[nodiscard]] char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
    std::size_t number();
    void give_up();

    // Appends within a limit, so that substitutions of substitutions do not grow without end.
    static void append(std::string &text, std::string_view more, std::size_t limit);
    void add_substitution(const std::string &text);

    // Each of these appends to `text`, and gives up on unknown input.
    void name(std::string &text);
    void nested_name(std::string &text);
    void unscoped_name(std::string &text);
    void local_name(std::string &text);
    void unqualified_name(std::string &text);
    void unnamed_type(std::string_view kind, std::string &text);
    bool operator_name(std::string &text);
    bool constructor_name(std::string &text);
    void source_name(std::string &text);
    void substitution(std::string &text);
    [[nodiscard]] bool at_unqualified_name() const;

    void template_arguments(std::string &name);
    void argument_list(std::string &text);
    void literal(std::string &text);
    void type(std::string &text);
    void one_type(std::string &text);
    bool unwritten_type(std::string &text);
    void type_arguments(std::string &text);
    // Types up to the E that ends them; their text is not written.
    void skip_types();
    void skip_index();  // up to its "_"

    std::string_view rest_;
    std::size_t max_arguments_;
    std::vector<std::string> substitutions_;
    int depth_ = 0;
    int local_depth_ = 0;
    bool failed_ = false;
    bool usable_ = false;  // the text read before something unknown is a name
};

}  // namespace gpusnoop::symbols

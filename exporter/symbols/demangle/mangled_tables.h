// The fixed words of mangled names, as C++ spells them. For the sources of the parser only.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace gpusnoop::symbols {

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

}  // namespace gpusnoop::symbols

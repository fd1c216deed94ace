// The fixed words of mangled names, as C++ spells them. For mangled_name.cpp only.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace gpusnoop::symbols {

// <builtin-type>
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 23> kBuiltinTypes{{
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
    {"Dn", "decltype(nullptr)"},
    {"DF16_", "_Float16"},
    {"DF16b", "std::bfloat16_t"},
}};

// <substitution>s with a letter of their own, after the S
inline constexpr std::array<std::pair<char, std::string_view>, 7> kStandardNames{{
    {'t', "std"},
    {'a', "std::allocator"},
    {'b', "std::basic_string"},
    {'s', "std::string"},
    {'i', "std::istream"},
    {'o', "std::ostream"},
    {'d', "std::iostream"},
}};

// What a letter in front of a <type> adds behind it
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kTypeSuffixes{
    {{"P", "*"}, {"R", "&"}, {"O", "&&"}, {"K", " const"}, {"V", " volatile"}}};

// How a literal of a type is written; of others with the type in front, as in (char)65
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kLiteralSuffixes{
    {{"int", ""},
     {"unsigned int", "u"},
     {"long", "l"},
     {"unsigned long", "ul"},
     {"long long", "ll"},
     {"unsigned long long", "ull"}}};

}  // namespace gpusnoop::symbols

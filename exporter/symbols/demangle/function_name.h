// Readable names of functions, from the symbols of files that are not trusted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpusnoop::symbols {

// The longest name that function_name() gives, in bytes.
inline constexpr std::size_t max_function_name_bytes = 200;

// The function's name in its source: namespaces, class and name, without return type and
// parameters; short template arguments are kept, others become <...>. Versions (name@@VERSION) and
// compilers' suffixes for a part of a function (.cold, .part.0) are removed. Not empty unless the
// symbol is; valid UTF-8, at most max_function_name_bytes long. A symbol that cannot be read as a
// mangled name is returned unchanged.
//   _ZN5model7Trainer4stepERKSt6vectorIfSaIfEE -> model::Trainer::step
//   _ZZ4mainENKUlvE_clEv                       -> main::{lambda#1}::operator()
//   leak_big.constprop.0                       -> leak_big
[[nodiscard]] std::string function_name(std::string_view symbol);

// `name`, which is valid UTF-8, in at most `max_bytes` (16 or more): first without template
// arguments, then with "..." instead of its beginning.
[[nodiscard]] std::string shortened_name(std::string name, std::size_t max_bytes);

}  // namespace gpusnoop::symbols

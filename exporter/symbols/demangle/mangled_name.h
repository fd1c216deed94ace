// The first part of an Itanium-mangled name (_Z...): the qualified name of the function, without
// return type and parameters.
//
// This is not __cxa_demangle on purpose: back references (S_, T_) let a mangled name of a hundred
// bytes stand for text that fills the machine's memory, __cxa_demangle writes all of it, and there
// is no way to stop it. Here every piece of text has a limit and the work is linear in the input.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnoop::symbols {

// Writes "<...>" for a template argument list that is longer than `max_arguments` bytes, or that
// contains types of functions, arrays, members or template parameters. After an argument that this
// parser does not know (expressions, decltype), the name ends, because the end of the list is
// unknown, too; after such a parameter of an enclosing function, it ends with "::...". Lambdas are
// written "{lambda#1}". Empty if `mangled` is not a mangled function name of a kind known here
// (thunks, tables and guards are not).
[[nodiscard]] std::optional<std::string> read_mangled_name(std::string_view mangled,
                                                           std::size_t max_arguments);

// The number of the function's parameters. Empty if the name does not contain them, or cannot be
// read to its end.
[[nodiscard]] std::optional<std::size_t> count_mangled_parameters(std::string_view mangled);

}  // namespace gpusnoop::symbols

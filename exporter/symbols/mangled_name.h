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

// A template argument list longer than `max_arguments` bytes, or with arguments that this parser
// does not know (expressions, types local to a function, decltype), is written "<...>"; after an
// unknown one the name ends, because where the list ends is unknown, too. Empty if `mangled` is not
// a mangled function name of a kind known here (operators, constructors and local functions are
// not: a kernel is none of these).
[[nodiscard]] std::optional<std::string> read_mangled_name(std::string_view mangled,
                                                           std::size_t max_arguments);

}  // namespace gpusnoop::symbols

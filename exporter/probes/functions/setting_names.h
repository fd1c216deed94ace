// What is wrong with the names of libraries and functions that users write.
#pragma once

#include <string>

namespace gpusnoop::probes {

// Each gives a sentence, "" if nothing is wrong.

// A file name, or the path of a file; either may be a glob.
[[nodiscard]] std::string library_problem(const std::string &library);

// A symbol, or a glob. With `bare`, it has no key that says that it is a symbol.
[[nodiscard]] std::string symbol_problem(const std::string &symbol, bool bare);

// What a function is shown as, which becomes the value of a label.
[[nodiscard]] std::string function_name_problem(const std::string &name);

}  // namespace gpusnoop::probes

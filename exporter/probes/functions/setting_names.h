// Checks the names of libraries and functions in the configuration.
#pragma once

#include <string>

namespace gpusnoop::probes {

// Each returns a sentence about the problem, or "".

// A file name, or the path of a file; either may be a glob.
[[nodiscard]] std::string library_problem(const std::string &library);

// A symbol, or a glob. `bare`: without a key that marks it as a symbol.
[[nodiscard]] std::string symbol_problem(const std::string &symbol, bool bare);

// The shown name of a function, which becomes the value of a label.
[[nodiscard]] std::string function_name_problem(const std::string &name);

// The provider of a USDT probe, or the probe.
[[nodiscard]] std::string usdt_name_problem(const std::string &name);

}  // namespace gpusnoop::probes

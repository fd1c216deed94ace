// Globs as fnmatch(3) reads them without flags, and what is wrong with those that users write.
#pragma once

#include <string>
#include <string_view>

namespace gpusnoop::config {

// Whether `text` has a character that fnmatch does not take for itself.
[[nodiscard]] bool is_glob(std::string_view text);

// Why `glob` can match nothing, or not what was meant, as the end of a sentence that begins with
// the setting; "" if it is fine. fnmatch itself takes a [ without its ] for a plain character, and
// gives no error for anything.
[[nodiscard]] std::string glob_problem(std::string_view glob);

}  // namespace gpusnoop::config

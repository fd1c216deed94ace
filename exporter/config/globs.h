// Globs as fnmatch(3) reads them without flags, and the mistakes in globs that users write.
#pragma once

#include <string>
#include <string_view>

namespace gpusnoop::config {

// Whether `text` has a character that fnmatch does not match literally.
[[nodiscard]] bool is_glob(std::string_view text);

// Why `glob` can match nothing, or not what the user meant, as the end of a sentence that begins
// with the setting; "" if it is correct. fnmatch itself treats a [ without its ] as a plain
// character, and never reports an error.
[[nodiscard]] std::string glob_problem(std::string_view glob);

}  // namespace gpusnoop::config

// Globs as fnmatch(3) reads them without flags.
#pragma once

#include <fnmatch.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop {

[[nodiscard]] inline bool matches_glob(const std::string &glob, std::string_view text) {
    return ::fnmatch(glob.c_str(), std::string(text).c_str(), 0) == 0;
}

[[nodiscard]] inline bool matches_any(const std::vector<std::string> &globs,
                                      std::string_view text) {
    return std::ranges::any_of(
        globs, [text = std::string(text)](const auto &glob) { return matches_glob(glob, text); });
}

}  // namespace gpusnoop

// Tables of numbers, which are as wide everywhere, and of names, which are as wide as they need.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "exporter/cli/top/text.h"

namespace gpusnoop::top {

struct TextColumn {
    std::string title;
    std::size_t max_width;
    std::vector<std::string> texts = {};

    [[nodiscard]] std::size_t width() const {
        std::size_t width = width_of(title);
        for (const std::string &text : texts) {
            width = std::max(width, std::min(width_of(text), max_width));
        }
        return width;
    }
};

}  // namespace gpusnoop::top

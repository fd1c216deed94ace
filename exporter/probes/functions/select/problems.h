// Sentences about a file of which there may be thousands.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpusnoop::probes {

// The number of problems of each kind that are reported one by one.
inline constexpr std::size_t max_function_problems = 20;

// Sentences of one kind. Only the first ones are kept.
class Problems {
public:
    void add(std::string sentence) {
        if (++count_ <= max_function_problems) {
            sentences_.push_back(std::move(sentence));
        }
    }

    // `rest`: a description of the others.
    void move_to(std::vector<std::string> &all, const std::string &file, std::string_view rest) {
        std::move(sentences_.begin(), sentences_.end(), std::back_inserter(all));
        if (count_ > max_function_problems) {
            all.push_back(file + ": " + std::to_string(count_ - max_function_problems) +
                          std::string(rest));
        }
    }

private:
    std::vector<std::string> sentences_;
    std::size_t count_ = 0;
};

}  // namespace gpusnoop::probes

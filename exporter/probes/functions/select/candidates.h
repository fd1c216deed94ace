// The functions of a file that groups of the configuration want, one for each place.
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/functions/select/group.h"
#include "exporter/symbols/elf/elf_file.h"

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

// A symbol, and the group that it counts for. Borrows the function.
struct Candidate {
    const symbols::ListedFunction *function = nullptr;
    std::string_view symbol;         // without version
    std::string_view strict_symbol;  // at its address, one that allows no return probe, if any
    std::size_t group = 0;
    std::size_t pattern = 0;
    bool exact = false;
    std::optional<std::size_t> other_group{};  // another group that wants it
};

struct Candidates {
    std::vector<symbols::ListedFunction> listed{};  // those below borrow them
    std::vector<Candidate> chosen{};                // no place twice
    std::size_t not_probeable = 0;                  // wanted symbols that pick a function
    Problems problems{};                            // of these
};

// Notes in the groups which of their patterns match. Fails if the file, which sentences call
// `name`, cannot be read, and if the groups want more than `max_functions`.
[[nodiscard]] Result<Candidates> find_candidates(const symbols::ElfFile &file,
                                                 const std::string &name,
                                                 std::vector<GroupMatcher> &groups,
                                                 std::size_t max_functions);

}  // namespace gpusnoop::probes

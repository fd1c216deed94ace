// Options whose value is one of a few words.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "exporter/base/text/text.h"

namespace gpusnoop::cli {

// The option takes only these words, which the help lists.
template <typename Value>
void add_choice(CLI::Option *option, std::map<std::string, Value> words) {
    std::string list;
    for (const auto &[word, value] : words) {
        list += (list.empty() ? "" : ",") + word;
    }
    option->type_name("{" + list + "}");
    option->transform(CLI::Validator(
        [words = std::move(words), list](std::string &text) -> std::string {
            const auto found = words.find(text);
            if (found == words.end()) {
                return in_quotes(text) + " is not one of " + list;
            }
            text = std::to_string(static_cast<int>(found->second));
            return "";
        },
        ""));
}

}  // namespace gpusnoop::cli

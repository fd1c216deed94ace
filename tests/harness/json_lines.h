// Lines of JSON, as sinks write them.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/process.h"

namespace harness {

inline std::vector<nlohmann::json> parse_lines(const std::vector<std::string> &lines) {
    std::vector<nlohmann::json> all;
    for (const std::string &line : lines) {
        all.push_back(nlohmann::json::parse(line));
    }
    return all;
}

inline std::vector<nlohmann::json> json_lines_of_file(const std::string &path) {
    std::vector<std::string> lines;
    std::istringstream text(read_file(path));
    for (std::string line; std::getline(text, line);) {
        lines.push_back(line);
    }
    return parse_lines(lines);
}

}  // namespace harness

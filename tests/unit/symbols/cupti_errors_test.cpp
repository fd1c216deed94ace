#include "exporter/symbols/names/cuda_errors.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>

using gpusnoop::probes::cupti_error_name;

TEST_CASE("names of CUPTI's errors") {
    CHECK(cupti_error_name(0) == "CUPTI_SUCCESS");
    CHECK(cupti_error_name(39) == "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
    CHECK(cupti_error_name(999) == "CUPTI_ERROR_UNKNOWN");
    for (const int code : {-1, 998, 1000, 2147483647}) {
        CHECK(cupti_error_name(code).empty());
    }
}

TEST_CASE("names of CUPTI's errors are those of its header") {
    const char *home = std::getenv("CUDA_HOME");
    std::ifstream file(std::string(home != nullptr ? home : "/usr/local/cuda") +
                       "/include/cupti_result.h");
    if (!file.is_open()) {
        SKIP("there is no cupti_result.h on this machine");
    }
    const std::regex enumerator(R"(\s+(CUPTI_\w+)\s*=\s*(\d+)\s*,?\s*)");
    std::smatch match;
    int names = 0;
    for (std::string line; std::getline(file, line);) {
        if (std::regex_match(line, match, enumerator)) {
            CAPTURE(line);
            const std::string_view name = cupti_error_name(std::stoi(match[2]));
            CHECK((name == match[1].str() || name.empty()));  // newer than the table
            names++;
        }
    }
    CHECK(names > 40);
}

// The results of a benchmark, for people and for bench/run.py.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exporter/base/result.h"

namespace gpusnoop::bench {

// Cells are texts, already formatted; every row has as many as there are columns.
struct Table {
    std::string title;
    std::string text;  // a description, in a sentence or two
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows = {};
};

// A figure with a bar.
struct Bar {
    std::string what;
    std::string bar;       // "<= 1.25x"
    std::string measured;  // "1.31x (1.20 to 1.52)"
    bool met = false;
    std::string limit = {};  // the reason, in a sentence, if the bar is missed
};

struct Results {
    std::vector<Table> tables = {};
    std::vector<Bar> bars = {};
};

// As Markdown, to stdout.
void print(const Results &results);

// As JSON; an empty `file`: not written.
Result<> write_json(const Results &results, const std::filesystem::path &file);

}  // namespace gpusnoop::bench

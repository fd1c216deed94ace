// What a benchmark has found, for people to read and for bench/run.py.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exporter/base/result.h"

namespace gpusnoop::bench {

// Cells are texts, already formatted; every row has as many as there are columns.
struct Table {
    std::string title;
    std::string text;  // what was done, in a sentence or two
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows = {};
};

// Something that a figure is to hold.
struct Bar {
    std::string what;
    std::string bar;       // "<= 1.25x"
    std::string measured;  // "1.31x (1.20 to 1.52)"
    bool met = false;
    std::string limit = {};  // what limits it, in a sentence, where it is missed
};

struct Results {
    std::vector<Table> tables = {};
    std::vector<Bar> bars = {};
};

// As Markdown, to stdout.
void print(const Results &results);

// As JSON; `file` empty: nowhere.
Result<> write_json(const Results &results, const std::filesystem::path &file);

}  // namespace gpusnoop::bench

#include "bench/results/results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace gpusnoop::bench {

namespace {

std::string row_text(const std::vector<std::string> &cells) {
    return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

}  // namespace

void print(const Results &results) {
    std::string text;
    for (const Table &table : results.tables) {
        text += fmt::format("{}. {}\n\n{}", table.title, table.text, row_text(table.columns));
        text += row_text(std::vector<std::string>(table.columns.size(), "---"));
        for (const auto &row : table.rows) {
            text += row_text(row);
        }
        text += "\n";
    }
    for (const Bar &bar : results.bars) {
        text += fmt::format("{}: {} is to be {}: {}\n", bar.what, bar.measured, bar.bar,
                            bar.met ? "met" : "MISSED");
    }
    std::fputs(text.c_str(), stdout);
}

Result<> write_json(const Results &results, const std::filesystem::path &file) {
    if (file.empty()) {
        return {};
    }
    nlohmann::json json = {{"tables", nlohmann::json::array()}, {"bars", nlohmann::json::array()}};
    for (const Table &table : results.tables) {
        json["tables"].push_back({{"title", table.title},
                                  {"text", table.text},
                                  {"columns", table.columns},
                                  {"rows", table.rows}});
    }
    for (const Bar &bar : results.bars) {
        json["bars"].push_back({{"what", bar.what},
                                {"bar", bar.bar},
                                {"measured", bar.measured},
                                {"met", bar.met},
                                {"limit", bar.limit}});
    }
    std::ofstream out(file);
    out << json.dump(1) << "\n";
    out.close();
    return out ? Result<>{} : fail_errno("write " + file.string());
}

}  // namespace gpusnoop::bench

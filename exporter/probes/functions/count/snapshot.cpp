#include "exporter/probes/functions/count/snapshot.h"

#include <map>
#include <string_view>
#include <utility>

namespace gpusnoop::probes {

namespace {

using Rows = std::map<std::pair<std::string_view, std::string_view>, FunctionRow>;

void add(Rows &rows, const std::vector<FunctionCount> &counts) {
    for (const FunctionCount &count : counts) {
        const FunctionInfo &function = *count.function;
        FunctionRow &row = rows[{function.library, function.name}];
        const bool ends_are_seen = !function.options.entry_only;
        row.has_durations |= ends_are_seen;
        row.has_errors |= ends_are_seen && function.options.errors != ErrorKind::none;
        row.has_slow_calls |= ends_are_seen && function.options.slow_threshold.has_value();
        row.totals += count.totals;
        row.minute.merge(count.minute);
    }
}

void move_to(std::vector<FunctionRow> &all, Rows &rows, const FunctionsSnapshot::Process *process) {
    for (auto &[key, row] : rows) {
        row.library = key.first;
        row.function = key.second;
        row.process = process;
        all.push_back(std::move(row));
    }
}

}  // namespace

void FunctionCount::add(const FunctionCount &other) {
    totals += other.totals;
    minute.merge(other.minute);
}

std::vector<FunctionRow> rows_by_function(const FunctionsSnapshot &snapshot) {
    Rows rows;
    add(rows, snapshot.ended);
    for (const FunctionsSnapshot::Process &process : snapshot.processes) {
        add(rows, process.functions);
    }
    std::vector<FunctionRow> all;
    move_to(all, rows, nullptr);
    return all;
}

std::vector<FunctionRow> rows_by_process(const FunctionsSnapshot &snapshot) {
    std::vector<FunctionRow> all;
    for (const FunctionsSnapshot::Process &process : snapshot.processes) {
        Rows rows;
        add(rows, process.functions);
        move_to(all, rows, &process);
    }
    return all;
}

}  // namespace gpusnoop::probes

#include "tests/harness/calls_truth.h"
#include "tests/harness/counting.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "calls/functions.h"
#include "exporter/symbols/names/cuda_errors.h"

namespace harness {

namespace {

using gpusnoop::probes::ErrorKind;

constexpr const char *library = "libcalls.so.1";

// The names that cublas_api.h, cudnn_graph.h and nccl.h have for the errors of the library.
const std::map<std::pair<ErrorKind, std::int64_t>, std::string> &enumerators() {
    static const std::map<std::pair<ErrorKind, std::int64_t>, std::string> names = {
        {{ErrorKind::cublas_status, 1}, "CUBLAS_STATUS_NOT_INITIALIZED"},
        {{ErrorKind::cublas_status, 7}, "CUBLAS_STATUS_INVALID_VALUE"},
        {{ErrorKind::cublas_status, 13}, "CUBLAS_STATUS_EXECUTION_FAILED"},
        {{ErrorKind::cudnn_status, 2000}, "CUDNN_STATUS_BAD_PARAM"},
        {{ErrorKind::cudnn_status, 3000}, "CUDNN_STATUS_NOT_SUPPORTED"},
        {{ErrorKind::cudnn_status, 5000}, "CUDNN_STATUS_EXECUTION_FAILED"},
        {{ErrorKind::nccl_result, 1}, "ncclUnhandledCudaError"},
        {{ErrorKind::nccl_result, 2}, "ncclSystemError"},
        {{ErrorKind::nccl_result, 5}, "ncclInvalidUsage"},
    };
    return names;
}

// A probe at the entry alone sees each jump that a function makes to its own first instruction.
bool has_only_real_entries(const std::string &name) {
    return name != "calls::loop";
}

const CallsFunction &function_of(const std::string &name) {
    const auto &all = calls_functions();
    const auto found = std::ranges::find(all, name, &CallsFunction::name);
    if (found == all.end()) {
        throw std::runtime_error("not a function of the library: " + name);
    }
    return *found;
}

std::uint64_t take(std::map<std::string, std::uint64_t> &fields, const std::string &name,
                   const std::string &line) {
    const auto found = fields.find(name);
    if (found == fields.end()) {
        throw std::runtime_error("no " + name + " in: " + line);
    }
    const std::uint64_t value = found->second;
    fields.erase(found);
    return value;
}

CallsCount parse_count(std::istringstream &words, const std::string &line) {
    std::map<std::string, std::uint64_t> fields;
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos) {
            throw std::runtime_error("'" + word + "' in: " + line);
        }
        fields[word.substr(0, equals)] = std::stoull(word.substr(equals + 1));
    }
    CallsCount count{.entered = take(fields, "entered", line),
                     .returned = take(fields, "returned", line),
                     .left = take(fields, "left", line),
                     .errors = {},
                     .slow = take(fields, "slow", line),
                     .slow_at_most = take(fields, "slow_at_most", line),
                     .inner_ns = take(fields, "inner_ns", line),
                     .outer_ns = take(fields, "outer_ns", line)};
    for (const auto &[name, value] : fields) {
        if (!name.starts_with("error:")) {
            throw std::runtime_error("'" + name + "' in: " + line);
        }
        count.errors[std::stoll(name.substr(std::strlen("error:")))] = value;
    }
    return count;
}

void check_errors(const Page &page, const CallsFunction &function, const CallsCount &count,
                  const Labels &of) {
    std::map<std::string, std::uint64_t> by_name;
    std::uint64_t all = 0;
    for (const auto &[code, times] : count.errors) {
        by_name[calls_error_name(function.errors, code)] += times;
        all += times;
    }
    for (const auto &[name, times] : by_name) {
        Labels labels = of;
        labels["error"] = name;
        INFO("error " << name);
        CHECK(page.sum("gpusnoop_function_errors_total", labels) == number(times));
    }
    CHECK(page.sum("gpusnoop_function_errors_total", of) == number(all));
}

void check_durations(const Page &page, const CallsCount &count, const Labels &of) {
    Labels every = of;
    every["le"] = "+Inf";
    CHECK(page.sum("gpusnoop_function_duration_seconds_count", of) == number(count.returned));
    CHECK(page.sum("gpusnoop_function_duration_seconds_bucket", every) == number(count.returned));
    // A sum of seconds is not exact to the nanosecond.
    const double sum = page.sum("gpusnoop_function_duration_seconds_sum", of) * 1e9;
    CHECK(sum >= number(count.inner_ns) * (1 - 1e-9));
    CHECK(sum <= number(count.outer_ns) * (1 + 1e-9));
    const std::string min = "gpusnoop_function_duration_min_seconds";
    const std::string max = "gpusnoop_function_duration_max_seconds";
    // Both are of one minute, and may be none by now.
    CHECK(page.has(min, of) == page.has(max, of));
    CHECK(page.sum(min, of) <= page.sum(max, of));
}

}  // namespace

const std::vector<CallsFunction> &calls_functions() {
    enum Recorded { at_return, at_entry };
    static const std::vector<CallsFunction> functions = {
#define CALLS_ROW(id, symbol, name, errors, recorded) \
    {symbol, name, ErrorKind::errors, (recorded) == at_entry},
        CALLS_FUNCTIONS(CALLS_ROW)
#undef CALLS_ROW
    };
    return functions;
}

CallsCount &CallsCount::operator+=(const CallsCount &other) {
    entered += other.entered;
    returned += other.returned;
    left += other.left;
    for (const auto &[code, count] : other.errors) {
        errors[code] += count;
    }
    slow += other.slow;
    slow_at_most += other.slow_at_most;
    inner_ns += other.inner_ns;
    outer_ns += other.outer_ns;
    return *this;
}

CallsTruth parse_calls(const std::string &output) {
    CallsTruth truth;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string word;
        std::string name;
        if (words >> word && word == "truth" && words >> name) {
            truth[function_of(name).name] += parse_count(words, line);
        }
    }
    return truth;
}

CallsTruth operator+(CallsTruth one, const CallsTruth &other) {
    for (const auto &[name, count] : other) {
        one[name] += count;
    }
    return one;
}

std::string without_times(const std::string &output) {
    std::string text;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        text += line.starts_with("truth ") ? line.substr(0, line.find(" slow=")) : line;
        text += '\n';
    }
    return text;
}

double counted_calls(const CallsTruth &truth, bool entry_only) {
    double calls = 0;
    for (const auto &[name, count] : truth) {
        if (entry_only && !has_only_real_entries(name)) {
            continue;
        }
        calls += number(entry_only || function_of(name).at_entry ? count.entered : count.returned);
    }
    return calls;
}

double left_calls(const CallsTruth &truth) {
    double calls = 0;
    for (const auto &[name, count] : truth) {
        calls += function_of(name).at_entry ? 0 : number(count.left);
    }
    return calls;
}

std::string only_groups(const std::string &mode) {
    return "cuda:\n  enabled: false\n" + own_groups(mode);
}

std::string own_groups(const std::string &mode) {
    std::string text = "functions:\n  attach: " + mode + "\n  max_calls_per_second: 0\n  groups:\n";
    for (const auto &[name, unused] : gpusnoop::probes::shipped_function_groups()) {
        text += "    " + name + ": {enabled: false}\n";
    }
    return text;
}

std::string calls_config(const CallsConfig &config) {
    std::string text =
        only_groups(config.mode) + "    calls:\n      libraries: [\"libcalls.so*\"]\n";
    if (config.entry_only) {
        text += "      entry_only: true\n";
    } else if (!config.slow_threshold.empty()) {
        text += "      slow_threshold: " + config.slow_threshold + "\n";
    }
    if (!config.entry_only) {
        text += "      endings: " + config.endings + "\n";
    }
    text += "      functions:\n";
    for (const CallsFunction &function : calls_functions()) {
        if (config.entry_only && !has_only_real_entries(function.name)) {
            continue;
        }
        text += "        - {name: \"" + function.name + "\", symbol: " + function.symbol;
        if (function.errors != ErrorKind::none && !config.entry_only) {
            text += ", errors: " + std::string(to_text(function.errors));
        }
        if (function.at_entry && config.say_at_entry && !config.entry_only) {
            text += ", entry_only: true";
        }
        text += "}\n";
    }
    return text;
}

std::string calls_error_name(ErrorKind kind, std::int64_t code) {
    switch (kind) {
        case ErrorKind::null:
            return "null";
        case ErrorKind::errno_value:
            return "-1";  // the thread's errno is not seen
        case ErrorKind::cuda_error:
            return std::string(gpusnoop::probes::cuda_error_name(static_cast<int>(code)));
        case ErrorKind::cublas_status:
        case ErrorKind::cudnn_status:
        case ErrorKind::nccl_result:
            return enumerators().at({kind, code});
        case ErrorKind::nonzero:
        case ErrorKind::none:
            break;
    }
    return std::to_string(code);
}

void check_calls(const Page &page, const CallsTruth &truth, const std::string &comm,
                 const CallsConfig &config) {
    for (const auto &[name, count] : truth) {
        const CallsFunction &function = function_of(name);
        const Labels of = {{"comm", comm}, {"library", library}, {"function", name}};
        INFO("function " << name);
        const bool at_entry = config.entry_only || function.at_entry;
        if (config.entry_only && !has_only_real_entries(name)) {
            continue;
        }
        CHECK(page.sum("gpusnoop_function_calls_total", of) ==
              number(at_entry ? count.entered : count.returned));
        if (at_entry) {
            CHECK(page.sum("gpusnoop_function_duration_seconds_count", of) == 0);
            CHECK(page.sum("gpusnoop_function_errors_total", of) == 0);
            CHECK(page.sum("gpusnoop_function_slow_calls_total", of) == 0);
            continue;
        }
        check_errors(page, function, count, of);
        check_durations(page, count, of);
        const double slow = page.sum("gpusnoop_function_slow_calls_total", of);
        const bool any = !config.slow_threshold.empty();
        CHECK(slow >= number(any ? count.slow : 0));
        CHECK(slow <= number(any ? count.slow_at_most : 0));
    }
}

}  // namespace harness

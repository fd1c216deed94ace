#include "exporter/cli/top/sample.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace gpusnoop::top {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t max_bounds = 1'024;
constexpr double ns_per_second = 1e9;
// Larger values would overflow the numbers made from them.
constexpr double max_seconds = 9e9;

double read_seconds(const Json &json) {
    const auto seconds = json.get<double>();
    if (!json.is_number() || !(seconds >= 0 && seconds <= max_seconds)) {
        throw std::out_of_range("a time is not one");
    }
    return seconds;
}

std::uint64_t read_count(const Json &json) {
    if (!json.is_number_unsigned()) {
        throw std::out_of_range("a number is not a count");
    }
    return json.get<std::uint64_t>();
}

// Null is 0: an unknown value is not counted.
std::uint64_t read_ns(const Json &json) {
    return json.is_null() ? 0
                          : static_cast<std::uint64_t>(read_seconds(json) * ns_per_second + 0.5);
}

std::uint64_t read_known(const Json &json) {
    return json.is_null() ? 0 : read_count(json);
}

std::vector<double> read_bounds(const Json &json) {
    const auto bounds = json.get<std::vector<double>>();
    const bool ascending =
        std::ranges::adjacent_find(bounds, std::greater_equal<>()) == bounds.end();
    if (bounds.empty() || bounds.size() > max_bounds || !ascending || !(bounds.front() > 0) ||
        !std::isfinite(bounds.back())) {
        throw std::out_of_range("the buckets' bounds do not ascend");
    }
    return bounds;
}

std::uint32_t read_pid(const Json &json) {
    const auto pid = json.contains("pid") ? read_count(json.at("pid")) : 0;
    if (pid > std::numeric_limits<std::uint32_t>::max()) {
        throw std::out_of_range("a process's id is not one");
    }
    return static_cast<std::uint32_t>(pid);
}

processes::ProcessNames read_names(const Json &json) {
    const auto text = [&](const char *name) { return json.at(name).get<std::string>(); };
    return {.comm = text("comm"),
            .script = text("script"),
            .container = text("container_id"),
            .slurm_job_id = text("slurm_job_id"),
            .user = text("user")};
}

Function read_function(const Json &json, std::size_t buckets) {
    Function function;
    if (json.contains("pid")) {
        function.process = read_names(json);
    }
    function.has_errors = !json.at("errors").is_null();
    function.has_slow_calls = !json.at("slow_calls").is_null();
    probes::FunctionTotals &totals = function.totals;
    totals.calls = read_count(json.at("calls"));
    totals.errors = read_known(json.at("errors"));
    totals.slow_calls = read_known(json.at("slow_calls"));
    totals.duration_ns = read_ns(json.at("seconds"));
    totals.longest_ns = read_ns(json.at("longest_seconds"));
    for (const Json &bucket : json.at("buckets")) {
        const std::uint64_t number = read_count(bucket.at(0));
        if (number >= buckets) {
            throw std::out_of_range("there is no such bucket");
        }
        totals.durations.add(number, read_count(bucket.at(1)));
    }
    return function;
}

Sample read_sample(const Json &json) {
    Sample sample;
    sample.version = json.at("version").get<std::string>();
    sample.since = read_seconds(json.at("since_seconds"));
    sample.elapsed = read_seconds(json.at("elapsed_seconds"));
    sample.processes = read_count(json.at("processes"));
    sample.left_out = read_count(json.at("left_out"));
    sample.bounds = read_bounds(json.at("bucket_bounds_seconds"));
    for (const Json &one : json.at("functions")) {
        sample.functions.insert_or_assign(
            FunctionKey{one.at("library").get<std::string>(), one.at("function").get<std::string>(),
                        read_pid(one)},
            read_function(one, sample.bounds.size() + 1));
    }
    return sample;
}

}  // namespace

Result<Sample> parse_sample(std::string_view json) {
    try {
        return read_sample(Json::parse(json));
    } catch (const std::exception &) {
        return fail("its answer is not a list of functions in this version's format");
    }
}

}  // namespace gpusnoop::top

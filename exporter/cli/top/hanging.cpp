#include "exporter/cli/top/hanging.h"

#include <exception>
#include <nlohmann/json.hpp>

namespace gpusnoop::top {

namespace {

using Json = nlohmann::ordered_json;

std::string text_or_empty(const Json &json) {
    return json.is_null() ? std::string() : json.get<std::string>();
}

CallInFlight read_call(const Json &call) {
    return {.pid = call.at("pid").get<std::uint32_t>(),
            .program = {.comm = call.at("comm").get<std::string>(),
                        .script = call.at("script").get<std::string>(),
                        .container = call.at("container_id").get<std::string>(),
                        .slurm_job_id = call.at("slurm_job_id").get<std::string>()},
            .call = {.function = call.at("function").get<std::string>(),
                     .site = text_or_empty(call.at("site"))}};
}

}  // namespace

Result<std::vector<CallInFlight>> parse_in_flight(std::string_view json) {
    try {
        const Json page = Json::parse(json);
        std::vector<CallInFlight> calls;
        for (const Json &call : page.at("in_flight")) {
            calls.push_back(read_call(call));
        }
        return calls;
    } catch (const std::exception &) {
        return fail("its answer is not a list of calls in flight in this version's format");
    }
}

Result<std::map<ProgramKey, HangingCall>> parse_hanging(std::string_view json) {
    const auto calls = parse_in_flight(json);
    if (!calls) {
        return tl::unexpected(calls.error());
    }
    std::map<ProgramKey, HangingCall> oldest;
    for (const CallInFlight &one : *calls) {
        oldest.try_emplace(one.program, one.call);
    }
    return oldest;
}

}  // namespace gpusnoop::top

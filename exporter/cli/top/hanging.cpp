#include "exporter/cli/top/hanging.h"

#include <exception>
#include <nlohmann/json.hpp>

namespace gpusnoop::top {

namespace {

using Json = nlohmann::ordered_json;

std::string text_or_empty(const Json &json) {
    return json.is_null() ? std::string() : json.get<std::string>();
}

std::map<ProgramKey, HangingCall> read_hanging(const Json &page) {
    std::map<ProgramKey, HangingCall> calls;
    for (const Json &call : page.at("in_flight")) {  // the oldest first
        calls.try_emplace({.comm = call.at("comm").get<std::string>(),
                           .script = call.at("script").get<std::string>(),
                           .container = call.at("container_id").get<std::string>(),
                           .slurm_job_id = call.at("slurm_job_id").get<std::string>()},
                          HangingCall{.function = call.at("function").get<std::string>(),
                                      .site = text_or_empty(call.at("site"))});
    }
    return calls;
}

}  // namespace

Result<std::map<ProgramKey, HangingCall>> parse_hanging(std::string_view json) {
    try {
        return read_hanging(Json::parse(json));
    } catch (const std::exception &) {
        return fail("its answer is not a list of calls in flight in this version's format");
    }
}

}  // namespace gpusnoop::top

#include <nlohmann/json.hpp>

#include "exporter/base/seconds.h"
#include "exporter/base/text/text.h"
#include "exporter/base/text/utc_time.h"
#include "exporter/probes/frame/api/frame_json.h"
#include "exporter/probes/profile/profile.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const ProfiledStack &stack, ProfileType type) {
    Json json = {{"pid", stack.pid}, {"tid", stack.tid}};
    processes::add_names(json, stack.process);
    json["thread"] = stack.thread;
    json["cuda_call"] = stack.cuda_call.empty() ? Json() : Json(stack.cuda_call);
    json["samples"] = stack.samples;
    json["seconds"] = type == ProfileType::offcpu ? Json(in_seconds(stack.amount)) : Json();
    json["bytes"] = type == ProfileType::heap ? Json(stack.amount) : Json();
    json["kernel_stack"] = stack.kernel_frames;
    json["stack"] = Json::array();
    for (const symbols::Frame &frame : stack.frames) {
        json["stack"].push_back(frame_json(frame));
    }
    return json;
}

}  // namespace

// Stack by stack: all of them as one tree would take several times the memory of their text.
std::string to_json(const Profile &profile) {
    Json json = {{"type", name_of(profile.type)},
                 {"began", utc_time(profile.began)},
                 {"seconds", in_seconds(static_cast<std::uint64_t>(profile.duration.count()))}};
    json["frequency"] = profile.type == ProfileType::cpu ? Json(profile.frequency) : Json();
    json["samples_lost"] = profile.samples_lost;
    json["stacks_lost"] = profile.stacks_lost;
    json["samples_left_out"] = profile.samples_left_out;
    std::string text = to_text(json);
    text.pop_back();
    text += R"(,"stacks":[)";
    std::string_view separator = "";
    for (const ProfiledStack &stack : profile.stacks) {
        text += separator;
        text += to_text(json_of(stack, profile.type));
        separator = ",";
    }
    return text + "]}\n";
}

}  // namespace gpusnoop::probes

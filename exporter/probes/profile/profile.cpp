#include "exporter/probes/profile/profile.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ranges>
#include <utility>

#include "exporter/base/seconds.h"
#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/symbols/stacks/flame_graph.h"

namespace gpusnoop::probes {

const std::map<std::string, ProfileType> &profile_types() {
    static const std::map<std::string, ProfileType> types = {
        {"cpu", ProfileType::cpu},
        {"offcpu", ProfileType::offcpu},
        {"page_faults", ProfileType::page_faults},
        {"heap", ProfileType::heap}};
    return types;
}

std::string_view name_of(ProfileType type) {
    switch (type) {
        case ProfileType::offcpu:
            return "offcpu";
        case ProfileType::page_faults:
            return "page_faults";
        case ProfileType::heap:
            return "heap";
        case ProfileType::cpu:
            break;
    }
    return "cpu";
}

const std::map<std::string, ProfileFormat> &profile_formats() {
    static const std::map<std::string, ProfileFormat> formats = {{"folded", ProfileFormat::folded},
                                                                 {"json", ProfileFormat::json},
                                                                 {"pprof", ProfileFormat::pprof},
                                                                 {"svg", ProfileFormat::svg}};
    return formats;
}

std::optional<std::string> to_format(const Profile &profile, ProfileFormat format) {
    switch (format) {
        case ProfileFormat::json:
            return to_json(profile);
        case ProfileFormat::pprof:
            return to_pprof(profile);
        case ProfileFormat::svg:
            return to_svg(profile);
        case ProfileFormat::folded:
            break;
    }
    return to_folded(profile);
}

namespace {

constexpr std::string_view unknown_frame = "[unknown]";

}  // namespace

std::vector<std::string> frame_names(const ProfiledStack &stack) {
    std::vector<std::string> names = {stack.thread};
    if (!stack.cuda_call.empty()) {
        names.push_back("[in " + stack.cuda_call + "]");
    }
    // Where frame pointers lead nowhere, there can be a hundred frames in no file.
    for (const symbols::Frame &frame : stack.frames | std::views::reverse) {
        if (std::string name = symbols::frame_text(frame);
            name != unknown_frame || names.back() != unknown_frame) {
            names.push_back(std::move(name));
        }
    }
    for (const std::string &kernel : stack.kernel_frames | std::views::reverse) {
        names.push_back(kernel.starts_with('[') ? kernel : kernel + "_[k]");
    }
    return names;
}

std::uint64_t weight_of(const ProfiledStack &stack, ProfileType type) {
    return has_amount(type) ? stack.amount : stack.samples;
}

std::string to_folded(const Profile &profile) {
    std::map<std::string, std::uint64_t> amounts;  // by the line without its number
    for (const ProfiledStack &stack : profile.stacks) {
        std::string line = symbols::folded_names(stack.process.comm, frame_names(stack));
        amounts[line] += weight_of(stack, profile.type);
    }
    std::string text;
    for (const auto &[line, amount] : amounts) {
        const std::uint64_t shown = profile.type == ProfileType::offcpu ? amount / 1000 : amount;
        if (shown > 0) {
            text += line + ' ' + std::to_string(shown) + '\n';
        }
    }
    return text;
}

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

namespace {

std::string title_of(ProfileType type) {
    switch (type) {
        case ProfileType::offcpu:
            return "What waits, off the CPU";
        case ProfileType::page_faults:
            return "What touches memory that is not mapped yet";
        case ProfileType::heap:
            return "What is allocated and not freed";
        case ProfileType::cpu:
            break;
    }
    return "What runs on the CPU";
}

std::string amount_of(ProfileType type, std::uint64_t amount) {
    switch (type) {
        case ProfileType::offcpu:
            return duration_text(static_cast<double>(amount) / 1e9);
        case ProfileType::page_faults:
            return count_text(amount) + (amount == 1 ? " fault" : " faults");
        case ProfileType::heap:
            return bytes_text(amount);
        case ProfileType::cpu:
            break;
    }
    return count_text(amount) + (amount == 1 ? " sample" : " samples");
}

std::string subtitle_of(const Profile &profile, std::uint64_t sum) {
    std::string text = amount_of(profile.type, sum) + " in " +
                       duration_text(std::chrono::duration<double>(profile.duration).count());
    if (profile.type == ProfileType::cpu) {
        text += fmt::format(" at {} Hz", profile.frequency);
    }
    text += ", from " + utc_time(profile.began, 1);
    if (profile.samples_lost + profile.stacks_lost > 0) {
        text += fmt::format("; not complete: {} lost",
                            count_text(profile.samples_lost + profile.stacks_lost));
    }
    if (profile.samples_left_out > 0) {
        text += fmt::format("; {} of light stacks left out", count_text(profile.samples_left_out));
    }
    return sum == 0 ? "Nothing of this kind. " + text : text;
}

}  // namespace

std::string to_svg(const Profile &profile) {
    std::vector<symbols::FlameStack> stacks;
    std::uint64_t sum = 0;
    for (const ProfiledStack &stack : profile.stacks) {
        symbols::FlameStack &flame = stacks.emplace_back();
        flame.frames = frame_names(stack);
        flame.frames.insert(flame.frames.begin(), stack.process.comm);
        flame.amount = weight_of(stack, profile.type);
        sum += flame.amount;
    }
    return symbols::flame_graph(stacks,
                                {.title = title_of(profile.type),
                                 .subtitle = subtitle_of(profile, sum),
                                 .amount_text = [type = profile.type](std::uint64_t amount) {
                                     return amount_of(type, amount);
                                 }});
}

}  // namespace gpusnoop::probes

#include <fmt/format.h>

#include <chrono>

#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/utc_time.h"
#include "exporter/probes/profile/profile.h"
#include "exporter/symbols/stacks/flame_graph.h"

namespace gpusnoop::probes {

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

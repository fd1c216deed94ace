#include <map>
#include <ranges>
#include <utility>

#include "exporter/probes/profile/profile.h"

namespace gpusnoop::probes {

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

}  // namespace gpusnoop::probes

#include <algorithm>
#include <map>
#include <ranges>

#include "exporter/probes/profile/profile.h"

namespace gpusnoop::probes {

namespace {

// The frames from the kernel's innermost to the outermost, as folded_line() takes them.
std::vector<symbols::Frame> all_frames(const ProfiledStack &stack) {
    std::vector<symbols::Frame> frames;
    for (const std::string &function : stack.kernel_frames) {
        const std::string mark = function.starts_with('[') ? "" : "_[k]";
        frames.push_back({.function = function + mark, .module = "", .offset = 0});
    }
    frames.insert(frames.end(), stack.frames.begin(), stack.frames.end());
    if (!stack.cuda_call.empty()) {
        frames.push_back({.function = "[in " + stack.cuda_call + "]", .module = "", .offset = 0});
    }
    frames.push_back({.function = stack.thread, .module = "", .offset = 0});
    return frames;
}

}  // namespace

std::string to_folded(const Profile &profile) {
    std::map<std::string, std::uint64_t> amounts;  // by the line without its number
    for (const ProfiledStack &stack : profile.stacks) {
        std::string line = symbols::folded_line(stack.process.comm, all_frames(stack), 0);
        line.pop_back();
        amounts[line] += profile.type == ProfileType::offcpu ? stack.ns : stack.samples;
    }
    std::string text;
    for (const auto &[line, amount] : amounts) {
        const std::uint64_t shown = profile.type == ProfileType::offcpu ? amount / 1000 : amount;
        if (shown > 0) {
            text += line + std::to_string(shown) + '\n';
        }
    }
    return text;
}

}  // namespace gpusnoop::probes

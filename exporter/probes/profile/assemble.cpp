#include "exporter/probes/profile/assemble.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "exporter/trace/lines.h"

namespace gpusnoop::probes {

namespace {

// What it takes in memory and in a document, about.
std::size_t bytes_of(const ProfiledStack &stack) {
    constexpr std::size_t of_frame = 64;
    constexpr std::size_t of_stack = 512;
    std::size_t bytes = of_stack;
    for (const symbols::Frame &frame : stack.frames) {
        bytes += of_frame + frame.function.size() + frame.module.size();
    }
    for (const std::string &function : stack.kernel_frames) {
        bytes += of_frame + function.size();
    }
    return bytes;
}

ProfiledStack stack_of(const profile_key &key, const profile_count &count,
                       const ProfileNames &names) {
    ProfiledStack stack;
    stack.process = names.processes.names(process_of(key));
    stack.pid = key.tgid;
    stack.tid = key.tid;
    stack.thread =
        trace::printable({key.comm, ::strnlen(key.comm, sizeof(key.comm))}, trace::max_text_bytes);
    if (key.function != 0) {
        stack.cuda_call = names.cuda_function(static_cast<std::uint16_t>(key.function - 1));
    }
    if (const auto *named = names.stacks.user(key)) {
        stack.frames = named->frames;
        stack.places = named->places;
    }
    merge_python(stack.frames, stack.places, names.stacks.python(key));
    stack.kernel_frames = names.stacks.kernel(key);
    if (key.is_ready != 0) {
        stack.kernel_frames.insert(stack.kernel_frames.begin(), "[waits for a CPU]");
    }
    stack.samples = count.samples;
    stack.amount = count.amount;
    return stack;
}

}  // namespace

void add_stacks(Profile &profile, ProfileReading reading, const ProfileFilter &filter,
                std::size_t max_bytes, const ProfileNames &names) {
    std::ranges::sort(reading, std::greater<>(), [&](const auto &one) {
        return has_amount(profile.type) ? one.second.amount : one.second.samples;
    });
    std::size_t bytes = 0;
    for (const auto &[key, count] : reading) {
        const ProcessKey process = process_of(key);
        if (count.samples == 0) {
            continue;  // all of it has been freed
        }
        if (!names.processes.knows(process)) {
            profile.samples_lost += count.samples;  // the record of the process's start was lost
        } else if (names.processes.wants(filter, process)) {
            if (bytes >= max_bytes || names.stacks.lacks(key)) {
                profile.samples_left_out += count.samples;
                continue;
            }
            bytes += bytes_of(profile.stacks.emplace_back(stack_of(key, count, names)));
        }
    }
}

}  // namespace gpusnoop::probes

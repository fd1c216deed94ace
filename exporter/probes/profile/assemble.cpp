#include "exporter/probes/profile/assemble.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/read_file.h"
#include "exporter/system/machine.h"
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

namespace {

using std::chrono::nanoseconds;

// The others have no functions.
constexpr std::size_t max_python_threads = 256;

// How long ago a thread began, by /proc/PID/stat from the state on: proc_pid_stat(5).
nanoseconds age_in(std::string_view stat) {
    constexpr int from_state_to_start = 19;
    for (int i = 0; i < from_state_to_start && !stat.empty(); i++) {
        stat.remove_prefix(std::min(stat.find(' '), stat.size() - 1) + 1);
    }
    std::int64_t ticks = 0;
    std::from_chars(stat.data(), stat.data() + stat.size(), ticks);
    return now_on(CLOCK_BOOTTIME) - nanoseconds(ticks * (1'000'000'000 / ::sysconf(_SC_CLK_TCK)));
}

void add_of_process(Profile &profile, const ProcessKey &key, const processes::ProcessNames &names,
                    const std::set<std::uint32_t> &seen, const WorkLimit &limit) {
    std::error_code error;
    const std::string tasks = "/proc/" + std::to_string(key.tgid) + "/task";
    for (const auto &entry : std::filesystem::directory_iterator(tasks, error)) {
        if (limit.is_reached()) {
            return;
        }
        const std::string tid = entry.path().filename();
        const auto text = read_text(entry.path() / "stat", 512).value_or("");
        const std::size_t state = text.rfind(") ");
        if (state == std::string::npos || text[state + 2] == 'R' || text[state + 2] == 'Z' ||
            seen.contains(static_cast<std::uint32_t>(std::stoul(tid)))) {
            continue;
        }
        ProfiledStack stack;
        stack.process = names;
        stack.pid = key.tgid;
        stack.tid = static_cast<std::uint32_t>(std::stoul(tid));
        const auto comm = read_text(entry.path() / "comm", 64).value_or("");
        stack.thread = trace::printable(comm.substr(0, comm.find('\n')), trace::max_text_bytes);
        stack.kernel_frames = {"[off the CPU all the time]"};
        stack.samples = 1;
        const nanoseconds age = age_in(std::string_view(text).substr(state + 2));
        stack.amount = static_cast<std::uint64_t>(std::min(profile.duration, age).count());
        profile.stacks.push_back(std::move(stack));
    }
}

}  // namespace

void add_motionless(Profile &profile, const ProfiledProcesses &processes,
                    const ProfileFilter &filter, const std::set<std::uint32_t> &seen,
                    PythonStacks &python, const WorkLimit &limit) {
    const std::size_t first = profile.stacks.size();
    for (const ProcessKey &key : processes.keys()) {
        if (processes.wants(filter, key)) {
            add_of_process(profile, key, processes.names(key), seen, limit);
        }
    }
    // Afterwards, so that no process keeps the threads of others out.
    const std::size_t last = std::min(profile.stacks.size(), first + max_python_threads);
    for (std::size_t i = first; i < last; i++) {
        ProfiledStack &stack = profile.stacks[i];
        merge_python(stack.frames, stack.places, python.of(stack.pid, stack.tid));
    }
}

}  // namespace gpusnoop::probes

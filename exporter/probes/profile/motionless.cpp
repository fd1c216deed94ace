#include "exporter/probes/profile/motionless.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/read_text.h"
#include "exporter/probes/frame/python/merge.h"
#include "exporter/system/machine.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::probes {

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

#include "exporter/probes/frame/python/stacks.h"

#include <algorithm>
#include <cerrno>

#include "exporter/probes/frame/python/code_names.h"
#include "exporter/probes/frame/python/site_label.h"
#include "exporter/processes/proc.h"
#include "exporter/processes/user_shares.h"

namespace gpusnoop::probes {

namespace {

constexpr std::chrono::milliseconds longest_of_process{1000};
constexpr std::chrono::milliseconds longest_of_user{1500};

}  // namespace

std::vector<PythonFrame> PythonStacks::of(std::uint32_t tgid, std::uint32_t tid) {
    const auto [found, is_new] = processes_.try_emplace(tgid);
    Process &process = found->second;
    if (is_new) {
        process.user = processes::sharing_user_of(tgid);
    }
    Clock::duration &spent_by_user = spent_[process.user];
    const Clock::duration left = std::min<Clock::duration>(longest_of_process - process.spent,
                                                           longest_of_user - spent_by_user);
    if (left <= Clock::duration::zero() || limit_.is_reached()) {
        return {};
    }
    const auto began = Clock::now();
    auto frames = read(tgid, tid, process, limit_.at_most(left));
    const auto took = Clock::now() - began;
    process.spent += took;
    spent_by_user += took;
    return frames;
}

std::vector<PythonFrame> PythonStacks::read(std::uint32_t tgid, std::uint32_t tid, Process &process,
                                            const WorkLimit &limit) {
    const symbols::ReadMemory memory = [&](auto of, auto address, auto size) {
        return limit.is_reached() ? Result<std::string>(fail("no time is left", ETIMEDOUT))
                                  : files_.read_memory(of, address, size);
    };
    if (!process.is_found) {
        process.is_found = true;
        process.python = find_python(files_, tgid, limit);
    }
    if (!process.python) {
        return {};
    }
    files_.set_limit(limit);
    if (process.states.empty()) {
        process.states = python_states(*process.python, tgid, memory);
    }
    const auto id = processes::innermost_id_of(tid);
    std::vector<PythonFrame> frames;
    for (const PythonCall &call :
         python_calls(*process.python, tgid, id.value_or(tid), process.states, memory)) {
        const std::pair key(call.code, call.instruction);
        auto known = process.places.find(key);
        if (known == process.places.end() && !limit.is_reached()) {
            const PythonPlace place =
                python_place(files_, tgid, process.python->code, call.code, call.instruction);
            known = process.places
                        .emplace(key, PythonFrame{.function = place.frame(),
                                                  .site = python_site_frame(place)})
                        .first;
        }
        PythonFrame &frame = frames.emplace_back();
        if (known != process.places.end()) {
            frame = known->second;
        }
        frame.is_called_by_c = call.is_called_by_c;
    }
    return frames;
}

}  // namespace gpusnoop::probes

#include "exporter/probes/frame/python/stacks.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string_view>

#include "exporter/processes/proc.h"
#include "exporter/processes/user_shares.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_frames = 3;

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
}

// Cells are files of ipykernel's, or "<ipython-input-3-8e0d7f>".
bool is_notebook(std::string_view path) {
    return contains(path, "/ipykernel_") || path.starts_with("<ipython-input-");
}

bool is_installed(std::string_view path) {
    return contains(path, "/site-packages/") || contains(path, "/dist-packages/") ||
           contains(path, "/lib/python3.") || contains(path, "/lib64/python3.") ||
           path.starts_with("<frozen ");
}

// "<eval_with_key>.17", "<attrs generated init model.Config>"; but not "<stdin>" and "<string>".
bool is_generated(std::string_view path) {
    return path.starts_with('<') && path != "<stdin>" && path != "<string>";
}

std::string label_after(std::vector<std::string> names, std::span<const PythonSiteFrame> frames) {
    for (const PythonSiteFrame &frame : frames) {
        if (frame.name.empty() || names.size() >= max_frames) {
            continue;
        }
        // A function that calls itself is shown once.
        const bool is_new = names.empty() || names.back() != frame.name;
        if (names.empty() || (frame.is_own && is_new)) {
            names.push_back(frame.name);
        }
    }
    return symbols::joined_site(std::move(names));
}

}  // namespace

PythonSiteFrame python_site_frame(const PythonPlace &place) {
    if (place.path.empty()) {
        return {};
    }
    const auto called = [&](std::string_view file, bool has_line) {
        std::string name =
            trace::printable(std::string(file) + ":" + place.function, trace::max_text_bytes);
        return has_line && place.line ? name + ":" + std::to_string(*place.line) : name;
    };
    const std::string_view path = place.path;
    if (is_notebook(path)) {
        return {.name = called("[notebook]", true), .is_own = true};
    }
    if (contains(path, "/torchinductor_")) {
        return {.name = called("[torchinductor]", false), .is_own = false};
    }
    if (is_generated(path) && !is_installed(path)) {
        return {.name = called("[generated]", false), .is_own = false};
    }
    return {.name = place.frame().function,
            .is_own = !is_installed(path),
            .runs_backward = contains(path, "/torch/autograd/")};
}

std::string python_site_label(std::span<const PythonSiteFrame> frames) {
    return label_after({}, frames);
}

std::string python_backward_label(std::span<const PythonSiteFrame> frames) {
    const bool waits = !frames.empty() && frames.front().runs_backward;
    return label_after({"[backward]"}, waits ? frames : frames.first(0));
}

namespace {

struct Stack {
    std::vector<symbols::Frame> frames;
    std::vector<symbols::CodePlace> places;

    void add(symbols::Frame frame, symbols::CodePlace place) {
        frames.push_back(std::move(frame));
        places.push_back(std::move(place));
    }
};

// Where tail calls lead from one instruction to the next, each has a function of its own.
bool is_instruction(const symbols::Frame &frame) {
    return frame.function.starts_with("_TAIL_CALL_");
}

// The compiler may have moved a part of it: "_PyEval_EvalFrameDefault.cold".
bool is_loop(const symbols::Frame &frame) {
    constexpr std::string_view loop = "_PyEval_EvalFrameDefault";
    const std::string_view name = frame.function;
    return name.starts_with(loop) && (name.size() == loop.size() || name[loop.size()] == '.');
}

bool is_of_run(const symbols::Frame &frame) {
    return is_loop(frame) || is_instruction(frame);
}

// The innermost of the frames that are one run: an instruction is inside of its loop.
bool begins_run(const std::vector<symbols::Frame> &native, std::size_t at) {
    return is_of_run(native[at]) &&
           (at == 0 || !is_instruction(native[at - 1]) || is_instruction(native[at]));
}

bool begins(const symbols::Frame &frame) {
    constexpr std::array<std::string_view, 11> names = {"main",
                                                        "_start",
                                                        "Py_BytesMain",
                                                        "Py_Main",
                                                        "Py_RunMain",
                                                        "clone",
                                                        "clone3",
                                                        "start_thread",
                                                        "thread_run",
                                                        "__libc_start_main",
                                                        "__libc_start_call_main"};
    return std::ranges::find(names, frame.function) != names.end();
}

std::size_t runs_in(const std::vector<PythonFrame> &python) {
    const auto ended = std::ranges::count_if(
        python, [](const PythonFrame &frame) { return frame.is_called_by_c; });
    // The walk may have ended within the outermost.
    return static_cast<std::size_t>(ended) + (python.back().is_called_by_c ? 0 : 1);
}

}  // namespace

bool is_python(const symbols::Frame &frame) {
    return !frame.module.empty() && frame.function.starts_with(frame.module + ":");
}

void merge_python(std::vector<symbols::Frame> &native, std::vector<symbols::CodePlace> &places,
                  const std::vector<PythonFrame> &python) {
    if (python.empty()) {
        return;
    }
    places.resize(native.size());
    std::size_t runs = 0;
    for (std::size_t i = 0; i < native.size(); i++) {
        runs += begins_run(native, i) ? 1 : 0;
    }
    const bool has_all_runs = runs == runs_in(python);
    const auto innermost =
        runs > 0 ? std::ranges::find_if(native, is_of_run) : std::ranges::find_if(native, begins);
    Stack merged;
    std::size_t next = 0;  // of `python`
    for (std::size_t i = 0; i <= native.size(); i++) {
        const bool is_here = has_all_runs
                                 ? i < native.size() && begins_run(native, i)
                                 : static_cast<std::ptrdiff_t>(i) == innermost - native.begin();
        bool is_run = is_here;
        while (is_run && next < python.size()) {
            is_run = !has_all_runs || !python[next].is_called_by_c;
            merged.add(python[next++].function, {});
        }
        if (i < native.size() && !is_of_run(native[i])) {
            merged.add(std::move(native[i]), std::move(places[i]));
        }
    }
    native = std::move(merged.frames);
    places = std::move(merged.places);
}

void merge_python(std::vector<symbols::Frame> &native, const std::vector<PythonFrame> &python) {
    std::vector<symbols::CodePlace> places;
    merge_python(native, places, python);
}

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

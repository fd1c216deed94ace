#include "exporter/probes/frame/python/merge.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace gpusnoop::probes {

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

}  // namespace gpusnoop::probes

#include "exporter/probes/profile/python/merge.h"

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

bool is_loop(const symbols::Frame &frame) {
    return frame.function == "_PyEval_EvalFrameDefault";
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

void merge_python(std::vector<symbols::Frame> &native, std::vector<symbols::CodePlace> &places,
                  const std::vector<PythonFrame> &python) {
    if (python.empty()) {
        return;
    }
    places.resize(native.size());
    const auto loops = static_cast<std::size_t>(std::ranges::count_if(native, is_loop));
    const bool has_all_runs = loops == runs_in(python);
    const auto innermost =
        loops > 0 ? std::ranges::find_if(native, is_loop) : std::ranges::find_if(native, begins);
    Stack merged;
    std::size_t next = 0;  // of `python`
    for (std::size_t i = 0; i <= native.size(); i++) {
        const bool is_here = has_all_runs
                                 ? i < native.size() && is_loop(native[i])
                                 : static_cast<std::ptrdiff_t>(i) == innermost - native.begin();
        bool is_run = is_here;
        while (is_run && next < python.size()) {
            is_run = !has_all_runs || !python[next].is_called_by_c;
            merged.add(python[next++].function, {});
        }
        if (i < native.size() && !is_loop(native[i])) {
            merged.add(std::move(native[i]), std::move(places[i]));
        }
    }
    native = std::move(merged.frames);
    places = std::move(merged.places);
}

}  // namespace gpusnoop::probes

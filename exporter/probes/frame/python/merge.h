// Puts Python's functions among the native ones of a thread's stack.
#pragma once

#include <vector>

#include "exporter/probes/frame/python/site_label.h"
#include "exporter/symbols/stacks/code_place.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

struct PythonFrame {
    symbols::Frame function;
    bool is_called_by_c = false;  // the interpreter's loop runs for it and for those inside of it
    PythonSiteFrame site = {};    // its name in a call site; empty: not known, or not asked for
};

// Whether it is one of Python's, as python_function() and python_place() name them.
[[nodiscard]] bool is_python(const symbols::Frame &frame);

// All are innermost first; `places` are of the native frames, as in ProfiledStack. Each run of the
// interpreter's loop is replaced by the functions that it runs. Where the native stack lacks some
// of the runs, as it is without frame pointers, what is inside of the loop stays inside, and what
// begins a program or a thread stays outside.
void merge_python(std::vector<symbols::Frame> &native, std::vector<symbols::CodePlace> &places,
                  const std::vector<PythonFrame> &python);
// The same, without places.
void merge_python(std::vector<symbols::Frame> &native, const std::vector<PythonFrame> &python);

}  // namespace gpusnoop::probes

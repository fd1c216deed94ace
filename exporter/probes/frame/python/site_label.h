// The name of a call site in Python.
#pragma once

#include <span>
#include <string>

#include "exporter/probes/frame/python/code_names.h"

namespace gpusnoop::probes {

// A function of Python's on the stack of an allocation.
struct PythonSiteFrame {
    // "train.py:Trainer.step:42"; empty: not known. Files that a program makes have one name, not
    // one for each of them: "[notebook]:train:3", "[torchinductor]:call".
    std::string name;
    // Not of the standard library, an installed package, or a file that such a package has made.
    bool is_own = false;
    // It waits for PyTorch's threads of autograd, if it is the innermost.
    bool runs_backward = false;
};

[[nodiscard]] PythonSiteFrame python_site_frame(const PythonPlace &place);

// The innermost function, then the two innermost of the program's own:
// "allocator.py:empty:88 < model.py:forward:212 < train.py:main:40". Empty: none is known. As
// symbols::site_label().
[[nodiscard]] std::string python_site_label(std::span<const PythonSiteFrame> frames);

// Of a thread of autograd, which is in no function of Python's: "[backward] < train.py:step:40", by
// the frames of the main thread; "[backward]" if that one does not wait for it.
[[nodiscard]] std::string python_backward_label(std::span<const PythonSiteFrame> frames);

}  // namespace gpusnoop::probes

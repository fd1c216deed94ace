// Names the Python functions that threads of processes are in, and their lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/probes/frame/python/code_names.h"
#include "exporter/probes/frame/python/frames.h"
#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/symbols/stacks/mapped_files.h"
#include "exporter/symbols/stacks/stack_namer.h"
#include "exporter/symbols/stacks/stack_text.h"

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

struct PythonFrame {
    symbols::Frame function;
    bool is_called_by_c = false;  // the interpreter's loop runs for it and for those inside of it
    PythonSiteFrame site = {};    // its name in a call site; empty: not known, or not asked for
};

// Whether it is one of Python's, as python_function() and python_place() name them.
[[nodiscard]] bool is_python(const symbols::Frame &frame);

// All are innermost first; `places` are of the native frames, as in ProfiledStack. Each run of the
// interpreter's loop is replaced by the functions that it runs. Without frame pointers, the native
// stack may lack some of the runs: then the calls inside the loop stay inside, and the calls that
// begin a program or a thread stay outside.
void merge_python(std::vector<symbols::Frame> &native, std::vector<symbols::CodePlace> &places,
                  const std::vector<PythonFrame> &python);
// The same, without places.
void merge_python(std::vector<symbols::Frame> &native, const std::vector<PythonFrame> &python);

// For one look at threads that stand still, as what it has read of a process is not read again. A
// process that costs too much time has no names beyond that, and a user's processes together have
// little more: the others keep theirs. For one thread.
class PythonStacks {
public:
    // Nothing is read beyond the limit. `files` must outlive it.
    PythonStacks(symbols::MappedFiles &files, WorkLimit limit)
        : files_(files), limit_(std::move(limit)) {}

    // The innermost first, each with the line of its call: "train.py:Trainer.step:42". Empty: the
    // thread runs no Python, or of another version, or it cannot be read in time.
    [[nodiscard]] std::vector<PythonFrame> of(std::uint32_t tgid, std::uint32_t tid);

private:
    using Clock = std::chrono::steady_clock;
    struct Process {
        std::optional<PythonInterpreter> python;
        std::vector<PythonState> states;
        std::map<std::pair<std::uint64_t, std::int64_t>, PythonFrame> places;
        std::optional<std::uint32_t> user;
        Clock::duration spent{};
        bool is_found = false;
    };

    std::vector<PythonFrame> read(std::uint32_t tgid, std::uint32_t tid, Process &process,
                                  const WorkLimit &limit);

    symbols::MappedFiles &files_;
    WorkLimit limit_;
    std::map<std::uint32_t, Process> processes_;
    std::map<std::optional<std::uint32_t>, Clock::duration> spent_;  // by user
};

}  // namespace gpusnoop::probes

// Names the Python functions that threads of processes are in, and their lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/probes/frame/python/frames.h"
#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/probes/frame/python/merge.h"
#include "exporter/symbols/stacks/mapped_files.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

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

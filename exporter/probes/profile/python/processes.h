// The Python of the processes of a profile.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/probes/frame/python/stacks.h"
#include "exporter/symbols/stacks/mapped_files.h"

namespace gpusnoop::probes {

// For one thread.
class PythonProcesses {
public:
    // The map of BPF programs that says how to walk a process's frames; it stays the caller's.
    static Result<std::unique_ptr<PythonProcesses>> start(int layouts);

    // Those that run now: looks for an interpreter in the new ones, and after 1, 2, 4 ... calls
    // once more in those that had none, as a program may load one at any time. The others have
    // ended, and keep the names that they have.
    void look_at(std::span<const ProcessKey> running);
    // A stack of the BPF programs, by name. Call it while the process runs.
    [[nodiscard]] std::vector<PythonFrame> name(const ProcessKey &process,
                                                std::span<const std::uint64_t> stack);
    // The functions of threads that stand still, by their memory. It must not outlive this.
    [[nodiscard]] PythonStacks standing() { return {*files_, limit_}; }
    // Nothing is looked up beyond this limit. At first, there is none.
    void set_limit(const WorkLimit &limit) { limit_ = limit; }
    void keep_only(const std::function<bool(const ProcessKey &)> &is_kept);

private:
    using Clock = std::chrono::steady_clock;
    struct Process {
        std::uint64_t calls = 0;  // since it was looked at last
        std::uint64_t next_look = 1;
        std::optional<PythonInterpreter> python;
        std::map<std::uint64_t, symbols::Frame> functions;  // by code object
        bool runs = true;
        Clock::duration named{};  // how long that took since look_at()
    };

    PythonProcesses(std::unique_ptr<symbols::MappedFiles> files, int layouts)
        : files_(std::move(files)), layouts_(layouts) {}
    void look_at(const ProcessKey &key, Process &process, const WorkLimit &limit);
    // Null: it cannot be named now.
    const symbols::Frame *function_at(const ProcessKey &key, Process &process, std::uint64_t code);

    const std::unique_ptr<symbols::MappedFiles> files_;
    const int layouts_;
    WorkLimit limit_;
    Clock::duration named_{};  // the same, of all processes
    std::map<ProcessKey, Process> processes_;
};

}  // namespace gpusnoop::probes

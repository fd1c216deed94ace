// The lines of Python in which threads were inside of a CUDA call when a signal ended them, or the
// end of their process, and those of calls that failed: for `trace exit`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bpf/dying/dying.h"
#include "bpf/host_life.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/probes/frame/python/site_resolver.h"
#include "exporter/probes/frame/python/stacks.h"

struct dying_bpf;

namespace gpusnoop::probes {

// What the kernel has copied of a frame. Untrusted: a process has written all of it.
[[nodiscard]] PythonPlace place_of(const dying_frame_record &frame, const PythonCodeLayout &code);

// For one thread.
class DyingCalls {
public:
    static Result<std::unique_ptr<DyingCalls>> start(const CallMaps &maps);
    ~DyingCalls();
    DyingCalls(const DyingCalls &) = delete;
    DyingCalls &operator=(const DyingCalls &) = delete;

    // A GPU process that runs. If it has an interpreter, its stacks are read from soon on; else ask
    // again later, as it may load one at any time.
    void look_at(const ProcessKey &process);
    void drain();
    // Of the last call of a process: "train.py:Trainer.step:42 < train.py:main:7". Empty: it has
    // returned without an error, or no function of Python's made it.
    [[nodiscard]] std::string line_of(const life_exit_record &record) const;
    // The process has ended, and all is said of it.
    void forget(std::uint32_t tgid);

private:
    using Skeleton = ebpf::Skeleton<dying_bpf>;
    struct Call {
        std::vector<PythonSiteFrame> frames;  // the innermost first
        bool has_failed = false;
    };
    using Calls = std::map<std::uint64_t, Call>;  // by the beginning, as `followed` has it
    struct Process {
        ProcessKey key;
        bool is_asked = false;  // the answer is still to come
        std::optional<PythonInterpreter> python;
        Calls calls;
    };

    DyingCalls(Skeleton skeleton, std::unique_ptr<PythonSiteResolver> resolver);
    // Where the programs of `maps` find these.
    Result<> attach(const CallMaps &maps);
    void on_frame(std::span<const std::byte> bytes);
    void set_interpreter(Process &process, const PythonInterpreter &python);

    Skeleton skeleton_;
    std::unique_ptr<ebpf::Ring> frames_;
    ebpf::Link link_;
    std::unique_ptr<PythonSiteResolver> resolver_;
    std::map<std::uint32_t, Process> processes_;  // by tgid
};

}  // namespace gpusnoop::probes

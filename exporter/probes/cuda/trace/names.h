// The names in traced calls: of processes, of kernels, and of functions on stacks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "bpf/cuda/cuda.h"
#include "exporter/base/result.h"
#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/processes/process_names.h"
#include "exporter/processes/user_names.h"
#include "exporter/trace/event.h"
#include "exporter/trace/stack_names.h"

namespace gpusnoop::trace {

struct KernelName {
    std::string name;                       // "": not found
    std::optional<std::size_t> parameters;  // if the mangled name shows them
};

// Reads the records of the allocations ring. Looks names up immediately, and remembers them. For
// one thread.
class Names {
public:
    // `scripts`: the names of scripts are shown, too.
    static Result<std::unique_ptr<Names>> start(probes::CudaTables tables, bool scripts);

    void on_record(std::span<const std::byte> bytes);
    // After each round: forgets the processes whose end was read in the round before.
    void forget_ended();

    struct Process : processes::ProcessNames {  // printable
        std::uint32_t ppid = 0;                 // 0: not known
    };
    [[nodiscard]] const Process &process(const cuda_record &head);
    [[nodiscard]] const KernelName &kernel(const cuda_record &head, std::uint64_t handle);

    // Names the frames of the calls' stacks, which have the addresses already.
    struct Stack {
        cuda_record head;
        Event *call;
    };
    void name_stacks(std::span<const Stack> stacks);

private:
    using Key = std::pair<std::uint32_t, std::uint64_t>;  // tgid, since_ns
    struct Kernel {
        std::uint64_t stands_for = 0;  // 0: itself
        std::optional<KernelName> name;
    };
    struct Known {
        Process process;
        symbols::Executable executable;
        std::unordered_map<std::uint64_t, Kernel> kernels;
        int ended = 0;  // 1: its end was read; 2: in the round before
    };

    Names(std::unique_ptr<symbols::MappedFiles> kernel_files,
          std::unique_ptr<StackNames> stack_names, probes::CudaTables tables, bool scripts);
    void on_process(const cuda_process_record &record);
    Process shown(probes::ProcessIdentity identity);
    Known &known(const cuda_record &head);
    KernelName look_up(const Known &process, std::uint64_t address);

    symbols::CudaKernelNamer kernel_namer_;
    std::unique_ptr<StackNames> stack_names_;
    probes::CudaTables tables_;
    bool scripts_;
    processes::UserNames users_;
    std::map<Key, Known> processes_;
};

}  // namespace gpusnoop::trace

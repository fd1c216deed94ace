// The CUDA probe's BPF side: loading it, and attaching it to libraries.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/calibration.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/cuda/attach/pins.h"
#include "exporter/probes/cuda/attach/program_settings.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/probes/frame/python/tables.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

// The reason why a library without any of the functions is not attached to.
inline constexpr const char *no_symbols = "no_symbols";

// How a file is attached to for its launches.
enum class LaunchLinks : std::uint8_t {
    none,
    ends,      // at both ends
    counting,  // of the driver: only where they enter it
    own,       // the same, with a link for each process
};

class CudaPrograms {
public:
    // Loads the programs in the best mode that works, or in the configured one. With `tracing` they
    // send a record of every call.
    static Result<std::unique_ptr<CudaPrograms>> load(const CudaConfig &config,
                                                      const ebpf::Features &features,
                                                      const CudaTracing *tracing = nullptr);
    ~CudaPrograms();
    CudaPrograms(const CudaPrograms &) = delete;
    CudaPrograms &operator=(const CudaPrograms &) = delete;

    // The failure's `reason` is a word for a label.
    struct Failure {
        std::string reason;
        Error error;
    };
    // The addresses in a file of the functions of cuda.h, and where each is probed. Aliases at one
    // address are one point.
    struct Places {
        std::vector<ebpf::AttachPoint> points;
        std::vector<ebpf::AttachPoint> exits;
        std::vector<symbols::FoundFunction> functions;
    };
    // No points: a program without its own runtime. A library without functions is a failure.
    [[nodiscard]] tl::expected<Places, Failure> find(const discovery::Library &library) const;
    // Omits functions that the kernel allows no probe on; the log names them. `kept` has the probes
    // that are still attached to the library.
    tl::expected<ebpf::UprobeSet, Failure> attach(const discovery::Library &library,
                                                  const Places &places,
                                                  ebpf::UprobeSet kept = {}) const;

    // The same places again, only in one process or in all.
    [[nodiscard]] Result<ebpf::UprobeSet> attach_again(const ebpf::ProbedFile &file,
                                                       const Places &places,
                                                       std::optional<std::uint32_t> tgid) const;

    [[nodiscard]] ebpf::AttachMode mode() const { return calls_.mode; }
    // Places where launches enter the driver, for programs that only count them there; in one
    // process or in all.
    [[nodiscard]] Result<ebpf::UprobeSet> attach_counting(const ebpf::ProbedFile &file,
                                                          std::vector<ebpf::AttachPoint> launches,
                                                          std::optional<std::uint32_t> tgid) const;
    // In between, links to launches are taken off, so that returns may not be seen; and links of
    // another kind may be attached to those of the driver: the programs of the new ones see to each
    // launch, once. For one thread at a time. `to`: for the driver only, else `none`.
    void begin_exchange(LaunchLinks to);
    void end_exchange();
    // Whether the programs add up how many other calls than launches a process makes.
    void note_other_calls(bool do_so) const;
    // Whether any launch was ever counted so.
    [[nodiscard]] bool has_counted() const;
    // What a launch by the runtime costs that is seen to its end; 0 while that is not known. For
    // any thread.
    [[nodiscard]] std::chrono::nanoseconds cost_of_launch() const { return cost_of_launch_; }
    // From now on the programs add up what they cost. For any thread.
    void set_costs(const ebpf::ProbeCosts &costs);
    [[nodiscard]] int lifecycle_ring() const;
    [[nodiscard]] int allocations_ring() const;
    [[nodiscard]] int calls_ring() const;
    // These two when tracing only.
    [[nodiscard]] int traces_ring() const;
    [[nodiscard]] int traces_lost_map() const;
    [[nodiscard]] int account_map() const;
    // The task storage with the open calls of threads.
    [[nodiscard]] int threads_map() const;
    [[nodiscard]] CudaTables::Maps tables() const;
    [[nodiscard]] PythonTables::Maps python_tables() const;
    // By process, since when all its launches are seen or counted: struct cuda_sight.
    [[nodiscard]] int sights_map() const;
    // By process, when the ends of launches were detached from: struct cuda_detached.
    [[nodiscard]] int detaches_map() const;
    // By process, the code of runtimes whose launches have no probe.
    [[nodiscard]] int runtimes_map() const;
    // `config`: what it was loaded with.
    Result<> share_maps(const CudaConfig &config, CudaShared &shared) const;
    [[nodiscard]] const bpf_object *object() const;
    [[nodiscard]] ebpf::Runs runs() const;
    // Null without pins.
    [[nodiscard]] CudaPins *pins() const;

private:
    struct Loaded;
    CudaPrograms(std::unique_ptr<Loaded> loaded, ebpf::CallPrograms calls,
                 ebpf::CallPrograms counting);
    static Result<std::unique_ptr<CudaPrograms>> load_as(ebpf::AttachMode mode,
                                                         const CudaConfig &config,
                                                         const CudaTracing *tracing);

    std::unique_ptr<Loaded> loaded_;
    ebpf::CallPrograms calls_;
    ebpf::CallPrograms counting_;
    std::uint64_t exchanges_;  // the number of the last one
    std::atomic<std::chrono::nanoseconds> cost_of_launch_{};
};

}  // namespace gpusnoop::probes

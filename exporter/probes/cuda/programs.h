// The CUDA probe's BPF side: loading it, and attaching it to libraries.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/calibration.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/object.h"
#include "exporter/ebpf/uprobe.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"
#include "exporter/probes/cuda/pins.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/cuda/tracing.h"
#include "exporter/probes/frame/followed_processes.h"
#include "exporter/probes/frame/target_processes.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::probes {

// The reason why a library without any of the functions is not attached to.
inline constexpr const char *no_symbols = "no_symbols";

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
    [[nodiscard]] Result<ebpf::UprobeSet> attach_again(int file_fd, const Places &places,
                                                       std::optional<std::uint32_t> tgid) const;

    [[nodiscard]] ebpf::AttachMode mode() const { return calls_.mode; }
    // Of a thread's launches, each such one is seen to end; 0: all are.
    [[nodiscard]] std::uint32_t launch_every() const;
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
    [[nodiscard]] int process_filter() const;
    // The processes whose launches are seen in turns.
    [[nodiscard]] int in_turns_map() const;
    // If the configuration says `follow`.
    [[nodiscard]] FollowMaps follow_maps() const;
    // If the configuration says `keep_times`.
    [[nodiscard]] TimeMaps time_maps() const;
    [[nodiscard]] ebpf::Runs runs() const;
    // Null without pins.
    [[nodiscard]] CudaPins *pins() const;

private:
    struct Loaded;
    CudaPrograms(std::unique_ptr<Loaded> loaded, ebpf::CallPrograms calls);
    static Result<std::unique_ptr<CudaPrograms>> load_as(ebpf::AttachMode mode,
                                                         const CudaConfig &config,
                                                         const CudaTracing *tracing);

    std::unique_ptr<Loaded> loaded_;
    ebpf::CallPrograms calls_;
};

}  // namespace gpusnoop::probes

// The BPF side of the probe `torch`: loads it, and attaches it to libraries.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/calibration.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/python/tables.h"
#include "exporter/probes/torch/settings.h"
#include "exporter/probes/torch/tables.h"

namespace gpusnoop::probes {

class TorchPrograms {
public:
    // Loads the programs in the best mode that works, or in the configured one.
    static Result<std::unique_ptr<TorchPrograms>> load(const TorchConfig &config,
                                                       const ebpf::Features &features);
    ~TorchPrograms();
    TorchPrograms(const TorchPrograms &) = delete;
    TorchPrograms &operator=(const TorchPrograms &) = delete;

    // The failure's `reason` is a word for a label.
    struct Failure {
        std::string reason;
        Error error;
    };
    // Empty of a program, which has the functions only if libc10 is linked into it.
    [[nodiscard]] static tl::expected<std::vector<ebpf::AttachPoint>, Failure> find(
        const discovery::Library &library);
    // `points` are those of the library, of which only the file is used; `kept` has the probes that
    // are still attached to it.
    [[nodiscard]] tl::expected<ebpf::UprobeSet, Failure> attach(
        const discovery::Library &library, const std::vector<ebpf::AttachPoint> &points,
        ebpf::UprobeSet kept) const;

    [[nodiscard]] ebpf::AttachMode mode() const { return calls_.mode; }
    // From now on the programs add up what they cost. For any thread.
    void set_costs(const ebpf::ProbeCosts &costs);
    [[nodiscard]] int events_ring() const;
    [[nodiscard]] int stacks_map() const;
    [[nodiscard]] int account_map() const;
    [[nodiscard]] int processes_map() const;  // its values are process_entry
    // With sampling.
    [[nodiscard]] TorchKernelTables tables() const;
    [[nodiscard]] PythonTables::Maps python_tables() const;
    [[nodiscard]] const bpf_object *object() const;
    [[nodiscard]] ebpf::Runs runs() const;

private:
    struct Loaded;
    TorchPrograms(std::unique_ptr<Loaded> loaded, ebpf::CallPrograms calls);
    static Result<std::unique_ptr<TorchPrograms>> load_as(ebpf::AttachMode mode,
                                                          const TorchConfig &config,
                                                          bool reads_python);

    std::unique_ptr<Loaded> loaded_;
    ebpf::CallPrograms calls_;
};

}  // namespace gpusnoop::probes

// The CUDA probe's BPF side: loading it, and attaching it to libraries.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/discovery/library.h"
#include "exporter/kernel/features.h"
#include "exporter/kernel/uprobe.h"

namespace gpusnoop::probes {

struct Runs {
    std::uint64_t count = 0;
    std::uint64_t nanoseconds = 0;
};

class CudaPrograms {
public:
    // Loads the programs in the best way that works, or in the one that the configuration names.
    static Result<std::unique_ptr<CudaPrograms>> load(const config::Config::Cuda &config,
                                                      const kernel::Features &features);
    ~CudaPrograms();
    CudaPrograms(const CudaPrograms &) = delete;
    CudaPrograms &operator=(const CudaPrograms &) = delete;

    // Finds the functions of cuda.h in the library and attaches to them. Aliases at one place are
    // attached to once. The failure's `reason` is a word for a label.
    struct Failure {
        std::string reason;
        Error error;
    };
    tl::expected<kernel::UprobeSet, Failure> attach(const discovery::Library &library) const;

    [[nodiscard]] kernel::AttachMode mode() const { return mode_; }
    [[nodiscard]] int allocations_ring() const;
    [[nodiscard]] int calls_ring() const;
    [[nodiscard]] int account_map() const;
    [[nodiscard]] Runs runs() const;

private:
    struct Loaded;
    CudaPrograms(std::unique_ptr<Loaded> loaded, kernel::AttachMode mode);
    static Result<std::unique_ptr<CudaPrograms>> load_as(kernel::AttachMode mode,
                                                         const config::Config::Cuda &config);
    [[nodiscard]] kernel::CallPrograms call_programs() const;

    std::unique_ptr<Loaded> loaded_;
    kernel::AttachMode mode_;
};

}  // namespace gpusnoop::probes

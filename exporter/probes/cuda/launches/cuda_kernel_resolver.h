// Names for the kernels that processes launch, found off the hot path in a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"
#include "exporter/symbols/stacks/background_resolver.h"

namespace gpusnoop::symbols {

class KernelResolver {
public:
    // Questions that wait. Past it, an executable is not opened ahead, and a kernel has no name.
    static constexpr std::size_t kMaxWaiting = 65'536;

    static Result<std::unique_ptr<KernelResolver>> start();
    explicit KernelResolver(std::unique_ptr<MappedFiles> files, FileCache::Settings settings = {});
    KernelResolver(const KernelResolver &) = delete;
    KernelResolver &operator=(const KernelResolver &) = delete;

    // Opens the executable while the process lives; it stays open for a minute after its last use.
    // Neither this nor ask() blocks.
    void remember(const Executable &executable);
    void ask(KernelRequest request);
    // The answers that are ready: one for each request.
    std::vector<KernelAnswer> answers();

private:
    using Question = std::variant<Executable, KernelRequest>;

    KernelNamer namer_;  // used by the thread only
    AnswerThread<Question, KernelAnswer> thread_;
};

}  // namespace gpusnoop::symbols

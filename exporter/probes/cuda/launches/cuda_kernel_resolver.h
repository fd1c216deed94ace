// Finds the names of launched kernels, off the hot path in its own thread.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"
#include "exporter/symbols/stacks/background_resolver.h"

namespace gpusnoop::symbols {

class CudaKernelResolver {
public:
    // The limit of waiting requests. Over the limit, an executable is not opened ahead, and a
    // kernel gets no name.
    static constexpr std::size_t max_waiting = 65'536;

    static Result<std::unique_ptr<CudaKernelResolver>> start();
    explicit CudaKernelResolver(std::unique_ptr<MappedFiles> files,
                                FileCache::Settings settings = {});
    CudaKernelResolver(const CudaKernelResolver &) = delete;
    CudaKernelResolver &operator=(const CudaKernelResolver &) = delete;

    // Opens the executable while the process is alive; it stays open for a minute after its last
    // use. Neither this nor ask() blocks.
    void remember(const Executable &executable);
    void ask(CudaKernelRequest request);
    // The answers that are ready: one for each request.
    std::vector<CudaKernelReply> answers();

private:
    using Question = std::variant<Executable, CudaKernelRequest>;

    void ask(std::uint32_t tgid, Question question);

    CudaKernelNamer namer_;  // used by the thread only
    BackgroundResolver<Question, CudaKernelReply> thread_;
};

}  // namespace gpusnoop::symbols

// `gpusnoop_exporter trace cuda|func|pcie|nvlink|fence|syscall`.
#pragma once

#include "exporter/cli/settings.h"
#include "exporter/trace/trace.h"

namespace CLI {
class App;
}

namespace gpusnoop::cli {

class TraceCommand {
public:
    explicit TraceCommand(CLI::App &command);
    TraceCommand(const TraceCommand &) = delete;
    TraceCommand &operator=(const TraceCommand &) = delete;

    [[nodiscard]] bool parsed() const;
    // Until the trace ends; returns the exit code.
    [[nodiscard]] int run(const Settings &settings) const;

private:
    void add_cuda(CLI::App &traces);
    void add_func(CLI::App &traces);
    void add_kernel_traces(CLI::App &traces);
    [[nodiscard]] Result<> trace(const config::Config &config, int stop_fd) const;

    trace::Options cuda_options_;
    trace::FunctionTraceOptions functions_options_;
    trace::KernelOptions kernel_options_;
    const CLI::App *traces_;
    const CLI::App *cuda_ = nullptr;
    const CLI::App *functions_ = nullptr;
};

}  // namespace gpusnoop::cli

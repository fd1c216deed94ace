// Attaches the tracing programs to the libraries that discovery finds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/detacher.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/cuda/attach/programs.h"

namespace gpusnoop::trace {

// For the discovery thread. The programs must outlive it.
class Attacher final : public discovery::Attacher {
public:
    // `libraries`: globs for the names of files.
    Attacher(const probes::CudaPrograms &programs, std::vector<std::string> libraries)
        : programs_(programs), libraries_(std::move(libraries)), detacher_(programs.mode()) {}
    ~Attacher() override;
    Attacher(const Attacher &) = delete;
    Attacher &operator=(const Attacher &) = delete;

    [[nodiscard]] bool wants(std::string_view name) const override;
    [[nodiscard]] bool is_inner(std::string_view name) const override {
        return probes::is_cuda_driver(name);
    }
    Result<> attach(const discovery::Library &library) override;
    void detach(const FileId &id, bool is_changed) override;
    [[nodiscard]] bool must_wait_for(const FileId &id) override {
        return detacher_.must_wait_for(id);
    }
    void failed(std::string_view /*reason*/) override {}  // discovery logs it

private:
    const probes::CudaPrograms &programs_;
    std::vector<std::string> libraries_;
    std::map<FileId, ebpf::UprobeSet> attached_;
    ebpf::Detacher detacher_;
};

}  // namespace gpusnoop::trace

// Attaches the programs of the probe `torch` to the libraries that discovery finds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/detacher.h"
#include "exporter/probes/frame/libraries/attached_libraries.h"
#include "exporter/probes/torch/programs.h"

namespace gpusnoop::probes {

// For the discovery thread. All references must outlive it.
class TorchAttacher final : public discovery::Attacher {
public:
    // `libraries`: globs for the names of files.
    TorchAttacher(const TorchPrograms &programs, AttachedLibraries &attached,
                  std::vector<std::string> libraries);
    ~TorchAttacher() override;
    TorchAttacher(const TorchAttacher &) = delete;
    TorchAttacher &operator=(const TorchAttacher &) = delete;

    [[nodiscard]] bool wants(std::string_view name) const override;
    Result<> attach(const discovery::Library &library) override;
    void detach(const FileId &id, bool is_changed) override;
    [[nodiscard]] bool must_wait_for(const FileId &id) override {
        return detacher_.must_wait_for(id);
    }
    void failed(std::string_view reason) override { attached_.failed(reason); }

private:
    const TorchPrograms &programs_;
    AttachedLibraries &attached_;
    std::vector<std::string> libraries_;
    ebpf::Detacher detacher_;
};

}  // namespace gpusnoop::probes

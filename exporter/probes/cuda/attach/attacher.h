// Attaches the CUDA probe's programs to the libraries that discovery finds.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/detacher.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/cuda/attach/missed_calls.h"
#include "exporter/probes/cuda/attach/programs.h"
#include "exporter/probes/cuda/governor/launch_probes.h"
#include "exporter/probes/frame/libraries/attached_libraries.h"

namespace gpusnoop::probes {

// The reasons that failed() is given, by itself and by discovery.
inline constexpr std::array<std::string_view, 6> cuda_failures = {"open",       "slow",   "elf",
                                                                  "no_symbols", "attach", "pin"};

// For the discovery thread, except missed_calls(). All references must outlive it.
class CudaAttacher final : public discovery::Attacher {
public:
    // `libraries`: globs for the names of files.
    // `launches`: if not null, has the probes on launches of kernels.
    CudaAttacher(const CudaPrograms &programs, AttachedLibraries &attached,
                 std::vector<std::string> libraries, LaunchProbes *launches = nullptr);
    ~CudaAttacher() override;
    CudaAttacher(const CudaAttacher &) = delete;
    CudaAttacher &operator=(const CudaAttacher &) = delete;

    [[nodiscard]] bool wants(std::string_view name) const override;
    [[nodiscard]] bool is_inner(std::string_view name) const override {
        return is_cuda_driver(name);
    }
    Result<> attach(const discovery::Library &library) override;
    void detach(const FileId &id, bool is_changed) override;
    [[nodiscard]] bool must_wait_for(const FileId &id) override {
        return detacher_.must_wait_for(id) || (launches_ != nullptr && launches_->is_closing(id));
    }
    void failed(std::string_view reason) override { attached_.failed(reason); }

    void used(const ebpf::Mapping &mapping,
              std::optional<std::chrono::nanoseconds> mapped_at) override {
        missed_calls_.used(mapping, mapped_at);
        if (launches_ != nullptr) {
            launches_->used(mapping);
        }
    }

    [[nodiscard]] const MissedCalls &missed_calls() const { return missed_calls_; }

private:
    tl::expected<AttachedLibraries::Functions, CudaPrograms::Failure> attach_launches(
        const discovery::Library &library, CudaPrograms::Places &places);
    Result<> refuse(const discovery::Library &library, const CudaPrograms::Failure &failure);
    void detach_launches(const FileId &id, bool is_changed);
    void note_seen(const discovery::Library &library,
                   void (MissedCalls::*seen)(const FileId &file, bool is_driver));

    const CudaPrograms &programs_;
    AttachedLibraries &attached_;
    std::vector<std::string> libraries_;
    LaunchProbes *launches_;
    MissedCalls missed_calls_;
    ebpf::Detacher detacher_;
};

}  // namespace gpusnoop::probes

// Attaches the programs of the probe `torch` to the libraries that discovery finds.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/detacher.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/probes/frame/libraries/attached_libraries.h"
#include "exporter/probes/torch/programs.h"

namespace gpusnoop::probes {

// For the discovery thread. All references must outlive it.
//
// A probe is one of all processes that use the file. So with sampling, processes that are given up
// have it as long as another one uses the file.
class TorchAttacher final : public discovery::Attacher {
public:
    // `libraries`: globs for the names of files.
    TorchAttacher(const TorchPrograms &programs, AttachedLibraries &attached,
                  std::vector<std::string> libraries);
    ~TorchAttacher() override;
    TorchAttacher(const TorchAttacher &) = delete;
    TorchAttacher &operator=(const TorchAttacher &) = delete;

    [[nodiscard]] bool wants(std::string_view name) const override;
    void used(const ebpf::Mapping &mapping,
              std::optional<std::chrono::nanoseconds> mapped_at) override;
    Result<> attach(const discovery::Library &library) override;
    void detach(const FileId &id, bool is_changed) override;
    [[nodiscard]] bool must_wait_for(const FileId &id) override {
        return detacher_.must_wait_for(id);
    }
    void failed(std::string_view reason) override { attached_.failed(reason); }

    // For the aggregating thread: detaches from files that only processes use that were given up.
    // They are attached to again for the next other process.
    void give_up(std::uint32_t tgid);
    void ended(std::uint32_t tgid);

private:
    struct File {
        discovery::Library library;  // with descriptors of its own
        std::vector<ebpf::AttachPoint> points;
        bool is_left = false;  // detached from, as it has only such users
    };

    Result<> attach_to(const File &file);
    Result<> refuse(const TorchPrograms::Failure &failure);
    // Whether no other process uses it.
    [[nodiscard]] bool has_only_given_up(const FileId &id);
    void leave_files();

    const TorchPrograms &programs_;
    AttachedLibraries &attached_;
    std::vector<std::string> libraries_;
    ebpf::Detacher detacher_;
    std::mutex mutex_;  // of the rest; the discovery thread alone adds and removes files
    std::map<FileId, File> files_;
    std::map<FileId, std::set<std::uint32_t>> users_;
    std::set<std::uint32_t> given_up_;
};

}  // namespace gpusnoop::probes

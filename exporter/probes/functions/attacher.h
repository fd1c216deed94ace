// Attaches the programs of the functions probe to the functions that the configuration wants, in
// the files that discovery finds.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/libraries/attached_libraries.h"
#include "exporter/probes/functions/attach/attached_files.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/attach/programs.h"
#include "exporter/probes/functions/select/selection.h"
#include "exporter/probes/functions/select/unnamed.h"
#include "exporter/probes/functions/settings.h"
#include "exporter/probes/functions/tracing.h"
#include "exporter/symbols/elf/debug_file.h"

namespace gpusnoop::probes {

// The reasons that failed() is given, by itself and by discovery.
inline constexpr std::array<std::string_view, 6> function_failures = {
    "open", "slow", "elf", "no_symbols", "no_probe", "attach"};

// Used by discovery's thread. What it refers to must outlive it.
class FunctionsAttacher final : public discovery::Attacher {
public:
    // `tracing` is null for an exporter.
    FunctionsAttacher(FunctionPrograms &programs, FunctionIds &ids, AttachedLibraries &attached,
                      FunctionsConfig config, const FunctionTracing *tracing,
                      const ebpf::Features &features);

    [[nodiscard]] bool wants(std::string_view name) const override;
    // The libraries that groups name by their whole path: those that they name by globs may be
    // many.
    [[nodiscard]] std::vector<std::string> paths() const override;
    // Not for a trace that names libraries.
    [[nodiscard]] bool examines() const override;
    [[nodiscard]] Examined examine(const discovery::Library &library) override;
    Result<> attach(const discovery::Library &library) override;
    void detach(const FileId &id, bool is_changed) override;
    [[nodiscard]] bool must_wait_for(const FileId &id) override { return files_.must_wait_for(id); }
    // Switched off, it is attached to nothing, and can be switched on again. Whether anything
    // changed.
    bool reconfigure(const config::Config &config);
    void failed(std::string_view reason) override { attached_.failed(reason); }
    [[nodiscard]] AttachedFiles &files() { return files_; }

private:
    // By whose libraries files are wanted.
    [[nodiscard]] const FunctionGroups &groups_of_files() const {
        return named_.empty() ? config_.groups : named_;
    }
    Result<Selection> select(const discovery::Library &library);
    Result<> change(const discovery::Library &library,
                    const std::vector<SelectedFunction> &functions);
    void remove(const FileId &id);
    void report(const Selection &selection, const discovery::Library &file);

    const FunctionPrograms &programs_;
    AttachedLibraries &attached_;
    FunctionsConfig config_;
    const FunctionTracing *tracing_;
    const ebpf::Features &features_;
    FunctionGroups named_;  // by the trace, if it names libraries
    UnmatchedFunctions unmatched_;
    symbols::DebugFiles debug_files_;
    AttachedFiles files_;
};

}  // namespace gpusnoop::probes

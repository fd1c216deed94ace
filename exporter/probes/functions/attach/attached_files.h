// The files that the functions probe is attached to. It attaches to functions of them and changes
// the functions, while the calls of unchanged functions still count.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/attach/detacher.h"
#include "exporter/probes/frame/libraries/attached_libraries.h"
#include "exporter/probes/functions/attach/attach_plan.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/attach/programs.h"
#include "exporter/probes/functions/select/selection.h"

namespace gpusnoop::probes {

class AttachedFiles {
public:
    struct Change {
        std::size_t functions = 0;  // that count now
        std::size_t added = 0;
        std::size_t dropped = 0;
        std::size_t changed = 0;             // count as another function now, or in another way
        std::vector<std::string> refused{};  // by the kernel, see FunctionLink
    };

    // Both must outlive it.
    AttachedFiles(FunctionPrograms &programs, FunctionIds &table)
        : programs_(&programs), table_(&table), detacher_(programs.mode()) {}
    ~AttachedFiles();
    AttachedFiles(const AttachedFiles &) = delete;
    AttachedFiles &operator=(const AttachedFiles &) = delete;

    // For the discovery thread, as all that follows until it says otherwise.
    //
    // Makes the file's attached functions equal to `wanted`. Probes of functions that stay are not
    // touched. Other functions are detached with the last of their link: in the mode perf each
    // separately, else with the last of their group; until then they are muted. If a new function
    // cannot be attached to, no new function is attached, but all other changes are made. Paused
    // functions stay paused, unless they are to count as other functions.
    Result<Change> change(const discovery::Library &library,
                          const std::vector<SelectedFunction> &wanted);

    enum class Reason {
        unused,   // by any process
        changed,  // it has other contents now
        removed,  // its functions are no longer configured
    };
    // Detaches all functions of the file, if there are any. Does not wait until they are detached.
    void detach(const FileId &id, Reason reason);
    [[nodiscard]] bool must_wait_for(const FileId &id);
    [[nodiscard]] bool has(const FileId &id) const;
    // Those that count now, and the paused ones.
    [[nodiscard]] AttachedLibraries::Functions functions(const FileId &id) const;

    // The rest is for the governor's thread (attach/pauses.cpp). Attaching can take seconds, or as
    // long as a process keeps its mappings locked: the discovery thread does not wait for it.
    //
    // What a call of a function that counts now costs a process.
    struct Cost {
        FunctionPlace place;
        std::chrono::nanoseconds of_call{};
        bool can_pause = false;
    };
    using Costs = std::map<std::uint32_t, Cost>;  // by the number in records
    [[nodiscard]] Costs costs() const;

    // Detaches these functions of the file from all processes. The others of a link get a link
    // without them first, so a call that begins at that moment may be missed. A failure: those of
    // one link or more are as they were, or the file has been changed meanwhile.
    Result<> pause(const FileId &id, const std::set<std::uint64_t> &entries);
    // Attaches to a paused function again, in a link of its own. A failure: it stays paused.
    Result<> resume(const FunctionPlace &place);
    // With their library and name.
    using Names = std::pair<std::string, std::string>;
    [[nodiscard]] std::map<FunctionPlace, Names> paused() const;

    // The links of paused functions are muted at once, and closed when no call of them is in
    // flight, so that the calls that had begun are seen to their end. After `settles`, no call is
    // just beginning that did not see the muting. After `longest_call` they are closed all the
    // same, or after `longest_paused_call` if only paused functions have calls in flight: until
    // then, the paused functions still stop the program. Such a call is shown in flight as long as
    // it is, and is not counted when it ends.
    static constexpr std::chrono::milliseconds settles{100};
    static constexpr std::chrono::minutes longest_call{1};
    static constexpr std::chrono::seconds longest_paused_call{5};
    // The numbers of links that may be closed, or whose numbers may be given back, at this time.
    [[nodiscard]] std::set<std::uint32_t> closing(std::chrono::nanoseconds now) const;
    // `in_flight`: calls of these numbers are, at the same time. Nothing: it is not known.
    using InFlight = std::optional<std::set<std::uint32_t>>;
    void close(std::chrono::nanoseconds now, const InFlight &in_flight);

private:
    using Links = std::vector<FunctionLink>;
    struct Paused {
        SelectedFunction function;
        FunctionInfo shown;
        // No record has it. It keeps the function in the table, and so its series on the page.
        std::uint32_t number = 0;
    };
    struct File {
        Fd fd;  // to attach again
        std::string name;
        std::uint64_t version = 0;  // another one after each change
        Links links;
        std::map<std::uint64_t, Paused> paused;  // by entry
    };
    // Muted, but for calls in flight.
    struct Closing {
        FileId file;
        FunctionLink link;
        std::set<std::uint64_t> paused;  // functions of it, by entry
        std::chrono::nanoseconds since{};
        // There when it is closed: calls in flight keep its numbers. True when it is detached.
        std::shared_ptr<std::atomic<bool>> is_detached{};

        // Whether it is to be looked at again.
        [[nodiscard]] bool is_due(std::chrono::nanoseconds now) const {
            return now - since >= (is_detached ? std::chrono::nanoseconds(longest_call) : settles);
        }
        [[nodiscard]] bool has_calls(const InFlight &in_flight) const;
        [[nodiscard]] bool must_stay(std::chrono::nanoseconds now, const InFlight &in_flight) const;
    };

    Result<Links> attach(const discovery::Library &library,
                         const std::vector<const SelectedFunction *> &functions);
    File &file_of(const discovery::Library &library);
    // The wanted functions that are not paused, and how many paused ones are not wanted.
    std::pair<std::vector<SelectedFunction>, std::size_t> without_paused(
        const discovery::Library &library, File &file, const std::vector<SelectedFunction> &wanted);
    void forget_paused(const Paused &paused, bool is_removed);
    // Calls in flight of links that are to be closed count as now wanted, too.
    void change_closing(const discovery::Library &library,
                        const std::vector<SelectedFunction> &wanted,
                        std::vector<FunctionIds::Change> &changes) const;
    static Result<discovery::Library> library_of(const FileId &id, const File &file);
    using Lock = std::unique_lock<std::mutex>;
    Result<FunctionLink> attach_muted(Lock &lock, const FileId &id,
                                      const std::vector<SelectedFunction> &functions);
    Result<FunctionLink> attach_others(Lock &lock, const FileId &id, const FunctionLink &link,
                                       const std::set<std::uint64_t> &entries);
    void exchange(const FunctionLink &old, const FunctionLink &with);
    void release(const FileId &id, Links links, Reason reason);
    void detach_closing(const FileId &id, Reason reason);

    FunctionPrograms *programs_;
    FunctionIds *table_;
    mutable std::mutex mutex_;  // of the next four
    std::map<FileId, File> files_;
    std::uint64_t versions_ = 0;
    std::optional<FileId> attaching_;  // by the governor's thread, at this moment
    std::vector<Closing> closing_;
    ebpf::Detacher detacher_;  // the last: it uses the members above
};

}  // namespace gpusnoop::probes

// Opens files that other processes have mapped, and never waits longer for one than the caller
// allows.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/system/foreign_reader.h"

namespace gpusnoop::processes {

struct MappedFile {
    Fd file;     // names the file, and reads it if there is no copy
    Fd content;  // a copy in memory of what can be of use, if the file's owner may keep readers
                 // waiting

    [[nodiscard]] int readable() const { return content ? content.get() : file.get(); }
};

// Child processes make the calls that may wait. A child that does not answer for a second is
// killed. Until it has ended, and for some seconds, no other file of that file system is opened. On
// file systems that always answer, files are opened and handed over; on others (FUSE, NFS), the
// child copies the file, because closing it could block the exporter. Used by one thread.
class FileOpener {
public:
    static constexpr std::chrono::milliseconds max_wait{1000};

    // One file that is being opened.
    class Opening {
    public:
        // With `again`, tries that descriptor first, which names the file; it must stay open.
        Opening(ebpf::Mapping mapping, Result<std::string> path, ForeignReader::Part part,
                int again = -1)
            : mapping_(std::move(mapping)),
              path_(std::move(path)),
              part_(part),
              again_(again),
              way_(again >= 0 ? -1 : 0) {}
        [[nodiscard]] const ebpf::Mapping &mapping() const { return mapping_; }
        // As MappingReader::path_of() returns it.
        [[nodiscard]] std::string path() const { return path_.value_or(""); }

    private:
        friend class FileOpener;
        using Clock = std::chrono::steady_clock;

        ebpf::Mapping mapping_;
        Result<std::string> path_;
        ForeignReader::Part part_;
        int again_;
        int way_;                            // the current way: see ask_to_open()
        std::optional<std::uint32_t> user_;  // while it has a reader
        std::unique_ptr<ForeignReader> reader_;
        bool is_found_ = false;   // it is open, and can be handed over
        bool is_in_use_ = false;  // the child has a file open, or has ended
        Fd named_;
        Error last_;
        struct Progress {
            std::uint64_t count = 0;
            Clock::time_point began;
            Clock::time_point last;
        };
        Progress progress_;
    };

    // `mappings` must outlive it.
    explicit FileOpener(ebpf::MappingList &mappings) : mappings_(&mappings) {}

    // Exactly the mapped file, or a failure: ENOENT or ESRCH if the process or the mapping is gone,
    // EAGAIN if a process has a lease on the file or no child can be started, ETIMEDOUT if it does
    // not answer. Empty: not finished, call it again. After a result, the Opening cannot be used
    // again.
    [[nodiscard]] std::optional<Result<MappedFile>> advance(Opening &opening,
                                                            std::chrono::milliseconds patience);
    // Opens the file in one call. `path` as MappingReader::path_of() returns it. ETIMEDOUT, too:
    // the limit is reached.
    [[nodiscard]] Result<MappedFile> open(const ebpf::Mapping &mapping, Result<std::string> path,
                                          ForeignReader::Part part, const WorkLimit &limit = {});

    // Gives up opening the file.
    void abandon(Opening &opening);
    // Whether it is not opened now: its file system does not answer, or others of its user do not.
    [[nodiscard]] bool is_blocked(const ebpf::Mapping &mapping);

    // Ends children that were idle for so long: they keep memory.
    void rest(std::chrono::seconds unused);

    // Children that did not answer and have not ended yet.
    [[nodiscard]] std::size_t stuck() const { return stuck_.size(); }

private:
    struct Stuck {
        std::unique_ptr<ForeignReader> reader;
        std::uint32_t device;
        std::optional<std::uint32_t> user;  // whose process has mapped the file
    };
    struct Slow {
        std::uint32_t device;
        std::chrono::steady_clock::time_point until;  // no file of it is opened before
    };

    struct Work {
        std::size_t files = 0;
        std::size_t copies = 0;
    };
    // Whether one more may begin for the user. One child of each kind is kept for other users.
    [[nodiscard]] bool has_room(const std::optional<std::uint32_t> &user, bool copies) const;
    void end_work(const Opening &opening);

    // Empty: too many children are at work now.
    std::optional<Result<>> begin(Opening &opening);
    Result<> ask_to_open(Opening &opening);
    std::optional<Result<MappedFile>> answered(Opening &opening, ForeignReader::Answer answer);
    Result<MappedFile> end(Opening &opening, Result<MappedFile> result);
    Result<MappedFile> give_up(Opening &opening);
    void forget_gone();
    [[nodiscard]] bool is_user_over_limit(const std::optional<std::uint32_t> &user) const;

    ebpf::MappingList *mappings_;
    std::vector<std::unique_ptr<ForeignReader>> idle_;
    std::vector<Stuck> stuck_;
    std::vector<Slow> slow_;
    std::chrono::steady_clock::time_point used_;
    // By user of those that are at work, and of those among them that copy.
    std::map<std::optional<std::uint32_t>, Work> at_work_;
};

// Whether a read of the mapped file waits only for this machine, never for a server or a program.
// No file on a file system that a user has mounted does: an overlay can go on to another file.
[[nodiscard]] bool always_answers(const ebpf::Mapping &mapping);

// The kernel's own link to the mapped file.
[[nodiscard]] std::string mapped_link(const ebpf::Mapping &mapping);
// The path of the mapped file in what that link or /proc/PID/maps shows. EACCES: it has none.
[[nodiscard]] Result<std::string> path_in_link(std::string_view link);

}  // namespace gpusnoop::processes

// Opens files that other processes have mapped, and never waits for one longer than it is told to.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/mapping_list.h"
#include "exporter/system/foreign_reader.h"

namespace gpusnoop::processes {

struct MappedFile {
    Fd file;     // names the file, and reads it where there is no copy
    Fd content;  // a copy in memory of what can be of use, if the file's owner may keep readers
                 // waiting

    [[nodiscard]] int readable() const { return content ? content.get() : file.get(); }
};

// What may wait is done by child processes. One that does not answer for a second is killed, and
// until it is gone, and some seconds, nothing else of its file's file system is touched. Files of
// kinds of file systems that always answer are opened and handed over; others (FUSE, NFS) are
// copied by the child, as we would have to close them. Used by one thread.
class FileOpener {
public:
    static constexpr std::chrono::milliseconds max_wait{1000};

    // One file that is being opened.
    class Opening {
    public:
        // With `again`, a descriptor that names the file is tried first; it must stay open.
        Opening(ebpf::Mapping mapping, Result<std::string> path, ForeignReader::Part part,
                int again = -1)
            : mapping_(std::move(mapping)),
              path_(std::move(path)),
              part_(part),
              again_(again),
              way_(again >= 0 ? -1 : 0) {}
        [[nodiscard]] const ebpf::Mapping &mapping() const { return mapping_; }
        // As mapped_path() says.
        [[nodiscard]] std::string path() const { return path_.value_or(""); }

    private:
        friend class FileOpener;
        using Clock = std::chrono::steady_clock;

        ebpf::Mapping mapping_;
        Result<std::string> path_;
        ForeignReader::Part part_;
        int again_;
        int way_;  // that is tried: see ask_to_open()
        std::unique_ptr<ForeignReader> reader_;
        bool is_found_ = false;   // it is open, and is to be handed over
        bool is_in_use_ = false;  // the child has a file open, or is gone
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

    // Exactly the mapped file, or a failure: ENOENT or ESRCH when the process or the mapping is
    // gone, EAGAIN when somebody has a lease on it, ETIMEDOUT when it does not answer. Empty while
    // it is not known yet: call it again then. Once it is, the Opening is of no use any more.
    [[nodiscard]] std::optional<Result<MappedFile>> advance(Opening &opening,
                                                            std::chrono::milliseconds patience);
    // All in one.
    [[nodiscard]] Result<MappedFile> open(const ebpf::Mapping &mapping, ForeignReader::Part part);

    // Nothing more is wanted of it.
    void abandon(Opening &opening);
    // Whether a file of that file system would not be touched now.
    [[nodiscard]] bool is_blocked(const ebpf::Mapping &mapping);

    // Ends the children that nothing was asked of for so long: they keep memory.
    void rest(std::chrono::seconds unused);

    // Children that did not answer and are not gone yet.
    [[nodiscard]] std::size_t stuck() const { return stuck_.size(); }

private:
    struct Stuck {
        std::unique_ptr<ForeignReader> reader;
        std::uint32_t device;
    };
    struct Slow {
        std::uint32_t device;
        std::chrono::steady_clock::time_point until;  // it is left alone
    };

    // Empty: there is no room for it now.
    std::optional<Result<>> begin(Opening &opening);
    Result<> ask_to_open(Opening &opening);
    std::optional<Result<MappedFile>> answered(Opening &opening, ForeignReader::Answer answer);
    Result<MappedFile> end(Opening &opening, Result<MappedFile> result);
    Result<MappedFile> give_up(Opening &opening);
    void forget_gone();

    ebpf::MappingList *mappings_;
    std::vector<std::unique_ptr<ForeignReader>> idle_;
    std::vector<Stuck> stuck_;
    std::vector<Slow> slow_;
    std::chrono::steady_clock::time_point used_;
    std::size_t working_ = 0;
    std::size_t copying_ = 0;
};

// Whether reading a file of such a file system waits for nobody but the machine itself.
[[nodiscard]] bool always_answers(std::uint32_t file_system);

// The path of the mapped file as /proc shows it: from our own root where the file can be reached
// from there, else from the root of the process's mount namespace.
[[nodiscard]] Result<std::string> mapped_path(const ebpf::Mapping &mapping);

}  // namespace gpusnoop::processes

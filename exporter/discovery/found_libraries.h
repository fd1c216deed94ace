// What discovery knows of the files that somebody wants to attach to, for people: written by its
// thread, read by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/discovery/library.h"

namespace gpusnoop::discovery {

struct FoundLibrary {
    FileId id;
    std::string name;  // last part of its path: untrusted
    std::string path;  // as a process that maps it has it; empty if it is not known: untrusted
    bool is_program = false;
    std::size_t processes = 0;  // that map it, as the last look found them, and still run
    // Who could not attach to it, and why not.
    std::map<const Attacher *, std::string> problems;
};

class FoundLibraries {
public:
    // What used() tells from here to end_look() are all processes that map anything.
    void begin_look();
    void end_look();

    // The process maps the file, which the attacher wants.
    void used(const Attacher &attacher, const FileId &id, const std::string &name,
              std::uint32_t tgid);
    // The attacher has made up its mind.
    void settled(const Attacher &attacher, const Library &library);
    void failed(const Attacher &attacher, const FileId &id, const std::string &problem);
    // It is of no interest to the attacher any more.
    void forget(const Attacher &attacher, const FileId &id);

    // By path. Asks for each process whether it still runs, which takes microseconds.
    [[nodiscard]] std::vector<FoundLibrary> list() const;

    // Processes that are kept for one file, those that have ended since the last look too.
    [[nodiscard]] std::size_t remembered(const FileId &id) const;

private:
    using Users = std::set<std::uint32_t>;  // process ids
    struct File {
        FoundLibrary known;
        std::set<const Attacher *> wanted_by;
        Users users;
        Users users_in_look;
        std::size_t prune_at = 1024;  // users
    };

    mutable std::mutex mutex_;
    bool in_look_ = false;
    std::map<FileId, File> files_;
};

}  // namespace gpusnoop::discovery

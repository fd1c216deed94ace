// The files that attachers want, as discovery knows them, for display: written by its thread, read
// by any.
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
    std::string path;  // as in a process that maps it; empty if not known: untrusted
    bool is_program = false;
    std::size_t processes = 0;  // that map it, by the last scan, and still run
    // The attachers that could not attach to it, and their reasons.
    std::map<const Attacher *, std::string> problems;
};

class FoundLibraries {
public:
    // The calls of used() from here to end_look() report all processes that map a wanted file,
    // except those that could not be read: these are taken to use what they used before. Returns
    // the files that they use.
    void begin_look();
    std::set<FileId> end_look(const std::set<std::uint32_t> &unread);

    // The process maps the file, which the attacher wants.
    void used(const Attacher &attacher, const FileId &id, const std::string &name,
              std::uint32_t tgid);
    // The attacher wants the file, whether or not a process maps it.
    void named(const Attacher &attacher, const FileId &id, const std::string &name);
    // The attacher has attached to it or refused it.
    void settled(const Attacher &attacher, const Library &library);
    void failed(const Attacher &attacher, const FileId &id, const std::string &problem);
    // The attacher does not need the file any more.
    void forget(const Attacher &attacher, const FileId &id);

    // Sorted by path. Asks for each process whether it still runs, which takes microseconds.
    [[nodiscard]] std::vector<FoundLibrary> list() const;

    // Whether a process maps any of them, by the last scan or found since.
    [[nodiscard]] bool has_users() const;

    // Processes that are kept for one file, including those that ended since the last scan.
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

    File &add(const Attacher &attacher, const FileId &id, const std::string &name);

    mutable std::mutex mutex_;
    bool in_look_ = false;
    std::map<FileId, File> files_;
};

}  // namespace gpusnoop::discovery

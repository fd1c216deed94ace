// Finds the debug file with the symbols of a stripped file, in the places where debuggers search.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/base/work_limit.h"
#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::symbols {

// Where the system may have installed the debug file of the file at `path`, below its root: by its
// build id, and by its .gnu_debuglink.
[[nodiscard]] std::vector<std::string> installed_debug_paths(const ElfFile &file,
                                                             const std::string &path);

// The first of these paths below `root` that is the debug file of `file`; null if none is.
[[nodiscard]] std::shared_ptr<const ElfFile::DebugFile> find_installed_debug_file(
    const std::string &root, const ElfFile &file, const std::string &path,
    const WorkLimit &limit = {});

// The file that .gnu_debuglink names, in the folder of `file` or in .debug there; null if it does
// not exist. `fd` is `file`, on a file system that always answers, and `path` is its path below
// `root`. Never enters another file system and follows no link there, so that it never waits. Only
// a file of root's or of the library's owner, which nobody else may write.
[[nodiscard]] std::shared_ptr<const ElfFile::DebugFile> find_debug_file_beside(
    int fd, const std::string &root, const ElfFile &file, const std::string &path,
    const WorkLimit &limit = {});

struct DebugFilePlace {
    std::uint32_t tid;  // of a thread that has mapped the file
    std::string path;   // in its mount namespace
    int local_fd;       // the file, if its file system always answers; else -1
};

// The debug file of `file`: installed on the host or in the exporter's mount namespace, or beside
// it. A file with its own symbols needs none. Each candidate without a build id is read whole, for
// its checksum: `limit` is for all of them.
[[nodiscard]] std::shared_ptr<const ElfFile::DebugFile> find_debug_file(const ElfFile &file,
                                                                        const DebugFilePlace &place,
                                                                        const WorkLimit &limit);

// Keeps the debug files found, so that they are known after the process through which they were
// found has ended.
class DebugFiles {
public:
    // The debug file of `file`, else what is compressed inside it. Looks for the debug file for two
    // seconds, within the limits of `file`.
    void add_to(ElfFile &file, const FileId &id, const DebugFilePlace &place);
    void forget(const FileId &id) { found_.erase(id); }

private:
    std::map<FileId, std::shared_ptr<const ElfFile::DebugFile>> found_;
};

}  // namespace gpusnoop::symbols

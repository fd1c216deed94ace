// Finds the file that has the symbols of a stripped one, where debuggers look for it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/symbols/elf_file.h"

namespace gpusnoop::symbols {

// Where the file at `path` may have its debug file, best first: by its build id below
// /usr/lib/debug, by its .gnu_debuglink in its own folder, in .debug there, and below
// /usr/lib/debug.
[[nodiscard]] std::vector<std::string> debug_paths(const ElfFile &file, const std::string &path);

// The first of them below `root` that is the debug file of `file`; null if there is none.
[[nodiscard]] std::shared_ptr<const ElfFile::DebugFile> find_debug_file_below(
    const std::string &root, const ElfFile &file, const std::string &path);

// The debug file of `file`, which the thread `tid` has mapped from `path`: below the root of that
// thread, or else below our own. A file that has its symbols itself needs none.
[[nodiscard]] std::shared_ptr<const ElfFile::DebugFile> find_debug_file(const ElfFile &file,
                                                                        std::uint32_t tid,
                                                                        const std::string &path);

// Those that were found, so that they are still known when the process is gone that they were found
// by.
class DebugFiles {
public:
    void add_to(ElfFile &file, const FileId &id, std::uint32_t tid, const std::string &path);
    void forget(const FileId &id) { found_.erase(id); }

private:
    std::map<FileId, std::shared_ptr<const ElfFile::DebugFile>> found_;
};

}  // namespace gpusnoop::symbols

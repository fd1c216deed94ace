// Files that are attached to before any process maps them: which files their paths lead to now.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/file_id.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/processes/mapping_reader.h"
#include "exporter/system/foreign_reader.h"

namespace gpusnoop::discovery {

// Paths are the host's: below the root of process 1, where the exporter may enter it, else below
// its own. A child process opens the files. Used by one thread.
class NamedFiles {
public:
    // Both must outlive it.
    NamedFiles(ebpf::MappingList &mappings, processes::MappingReader &paths);

    // The files that the host's driver library and these globs of paths lead to. Each file is like
    // a mapping by no process (tgid 0), at no address, of process 1. A path that does not answer
    // takes a second, and is left out for some minutes.
    [[nodiscard]] std::vector<ebpf::Mapping> find(const std::vector<std::string> &globs);

    // The path of a file that the last find() returned, as /proc/PID/maps would show it; empty for
    // others.
    [[nodiscard]] std::string path(const FileId &id) const;

private:
    using Clock = std::chrono::steady_clock;
    std::vector<std::string> expand(const std::vector<std::string> &globs) const;
    void identify(const std::string &path);

    ebpf::MappingList &mappings_;
    processes::MappingReader &paths_;
    std::string root_;
    std::unique_ptr<ForeignReader> reader_;
    struct Found {
        ebpf::Mapping mapping;
        std::string path;
    };
    std::map<FileId, Found> found_;
    std::map<std::string, Clock::time_point> left_out_;  // paths, until then
};

}  // namespace gpusnoop::discovery

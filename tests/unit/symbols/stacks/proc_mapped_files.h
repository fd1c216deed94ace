// The mapped files of this user's own processes, read from /proc: for tests without privileges.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "exporter/symbols/stacks/mapped_files.h"

namespace gpusnoop::test {

// What was asked of it, for the test to see.
struct MappedFilesCounts {
    int lists = 0;
    int opened = 0;
    int refused = 0;
};

class ProcMappedFiles : public symbols::MappedFiles {
public:
    explicit ProcMappedFiles(MappedFilesCounts &counts) : counts_(counts) {}

    Result<std::vector<ebpf::Mapping>> list(std::uint32_t tgid) override {
        ++counts_.lists;
        std::vector<ebpf::Mapping> mappings;
        std::ifstream maps("/proc/" + std::to_string(tgid) + "/maps");
        for (std::string line; std::getline(maps, line);) {
            std::istringstream fields(line);
            ebpf::Mapping mapping{};
            mapping.tgid = tgid;
            mapping.tid = tgid;
            char dash = 0;
            std::string rights;
            std::string device;
            fields >> std::hex >> mapping.start >> dash >> mapping.end >> rights >>
                mapping.file_offset >> device >> std::dec >> mapping.file.inode;
            if (const auto path = line.find('/'); path != line.npos && rights[2] == 'x') {
                std::istringstream numbers(device);
                std::uint32_t major = 0;
                std::uint32_t minor = 0;
                numbers >> std::hex >> major >> dash >> minor;
                mapping.file.device = (major << 20) | minor;
                mapping.name = line.substr(line.rfind('/') + 1);
                paths_.emplace_back(mapping.start, line.substr(path));
                mappings.push_back(mapping);
            }
        }
        return mappings;
    }

    Result<processes::MappedFile> open_file(const ebpf::Mapping &mapping) override {
        for (const auto &[start, path] : paths_) {
            Fd fd(start == mapping.start ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1);
            struct stat status{};
            if (fd && ::fstat(fd.get(), &status) == 0 && status.st_ino == mapping.file.inode) {
                ++counts_.opened;
                return processes::MappedFile{std::move(fd), {}};
            }
        }
        ++counts_.refused;
        return fail("not there any more", ENOENT);
    }

    Result<std::string> path_of(const ebpf::Mapping &mapping) override {
        for (const auto &[start, path] : paths_) {
            if (start == mapping.start) {
                return path;
            }
        }
        return fail("not there any more", ESRCH);
    }

private:
    MappedFilesCounts &counts_;
    std::vector<std::pair<std::uint64_t, std::string>> paths_;
};

// How many of this process's descriptors are of the file. By name: another thread may be closing
// them meanwhile.
inline int descriptors_of(const struct stat &file) {
    int count = 0;
    for (int fd = 0; fd < 1024; ++fd) {
        struct stat status{};
        const std::string path = "/proc/self/fd/" + std::to_string(fd);
        count += ::stat(path.c_str(), &status) == 0 && status.st_ino == file.st_ino &&
                         status.st_dev == file.st_dev
                     ? 1
                     : 0;
    }
    return count;
}

}  // namespace gpusnoop::test

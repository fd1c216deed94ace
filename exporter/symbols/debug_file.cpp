#include "exporter/symbols/debug_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace gpusnoop::symbols {
namespace {

// The path is that of a process, which can lead anywhere: not out of its root, and to regular files
// only. Whoever holds a lease on one is not waited for.
Fd open_below(const std::string &root_path, const std::string &path) {
    const Fd root(::open(root_path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    const Fd found(
        root ? static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof(how)))
             : -1);
    struct stat status{};
    if (!found || ::fstat(found.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return Fd();
    }
    return Fd(::open(("/proc/self/fd/" + std::to_string(found.get())).c_str(),
                     O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

}  // namespace

std::vector<std::string> debug_paths(const ElfFile &file, const std::string &path) {
    std::vector<std::string> paths;
    if (const auto id = file.build_id(); id && id->size() > 2) {
        paths.push_back("/usr/lib/debug/.build-id/" + id->substr(0, 2) + "/" + id->substr(2) +
                        ".debug");
    }
    const auto link = file.debug_link();
    if (link && path.starts_with('/') && !link->name.empty() &&
        link->name.find('/') == std::string::npos) {
        const std::string folder = path.substr(0, path.rfind('/') + 1);
        paths.push_back(folder + link->name);
        paths.push_back(folder + ".debug/" + link->name);
        paths.push_back("/usr/lib/debug" + folder + link->name);
    }
    return paths;
}

std::shared_ptr<const ElfFile::DebugFile> find_debug_file_below(const std::string &root,
                                                                const ElfFile &file,
                                                                const std::string &path) {
    for (const std::string &one : debug_paths(file, path)) {
        if (Fd found = open_below(root, one)) {
            if (auto debug = file.open_debug_file(std::move(found))) {
                return *std::move(debug);
            }
        }
    }
    return nullptr;
}

std::shared_ptr<const ElfFile::DebugFile> find_debug_file(const ElfFile &file, std::uint32_t tid,
                                                          const std::string &path) {
    if (file.has_symtab()) {
        return nullptr;
    }
    auto found = find_debug_file_below("/proc/" + std::to_string(tid) + "/root", file, path);
    return found != nullptr ? found : find_debug_file_below("/", file, path);
}

void DebugFiles::add_to(ElfFile &file, const FileId &id, std::uint32_t tid,
                        const std::string &path) {
    const auto known = found_.find(id);
    auto debug = known != found_.end() ? known->second : find_debug_file(file, tid, path);
    if (debug != nullptr && known == found_.end()) {
        found_.emplace(id, debug);
    }
    file.use_debug_file(std::move(debug));
}

}  // namespace gpusnoop::symbols

#include "exporter/symbols/elf/debug_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>

#include "exporter/system/file_keeper.h"

namespace gpusnoop::symbols {
namespace {

// For all places together.
constexpr std::chrono::seconds longest_search{2};

Fd open_path(int folder, const std::string &path, std::uint64_t resolve) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = resolve | RESOLVE_NO_MAGICLINKS;
    return Fd(static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how))));
}

Fd open_root(const std::string &path) {
    return Fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// Opens only a regular file, and does not wait for the holder of a lease.
Fd open_regular(const Fd &found) {
    struct stat status{};
    if (!found || ::fstat(found.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return Fd();
    }
    return Fd(::open(("/proc/self/fd/" + std::to_string(found.get())).c_str(),
                     O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

// Of a path that a process chose, found without waiting for its file system.
std::optional<struct statx> state_of_path(int fd) {
    struct statx status{};
    if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MODE | STATX_UID | STATX_GID,
                &status) != 0) {
        return std::nullopt;
    }
    return status;
}

bool on_one_device(const struct statx &one, const struct statx &other) {
    return one.stx_dev_major == other.stx_dev_major && one.stx_dev_minor == other.stx_dev_minor;
}

// Whether all who may write the debug file may write the library, too. A process can put any
// library into a folder of its own, by a mount, and its names are shown for all processes.
bool is_as_safe(const struct statx &debug, const struct statx &library) {
    const unsigned more_writers = debug.stx_mode & ~library.stx_mode & (S_IWGRP | S_IWOTH);
    const bool has_other_group =
        (debug.stx_mode & S_IWGRP) != 0 && debug.stx_gid != library.stx_gid;
    return (debug.stx_uid == 0 || debug.stx_uid == library.stx_uid) && more_writers == 0 &&
           !has_other_group;
}

std::string folder_of(const std::string &path) {
    return path.substr(0, path.rfind('/') + 1);
}

std::optional<std::string> link_of(const ElfFile &file) {
    const auto link = file.debug_link();
    return link && !link->name.empty() && link->name.find('/') == std::string::npos
               ? std::optional(link->name)
               : std::nullopt;
}

}  // namespace

std::vector<std::string> installed_debug_paths(const ElfFile &file, const std::string &path) {
    std::vector<std::string> paths;
    if (const auto id = file.build_id(); id && id->size() > 2) {
        paths.push_back("/usr/lib/debug/.build-id/" + id->substr(0, 2) + "/" + id->substr(2) +
                        ".debug");
    }
    if (const auto link = link_of(file); link && path.starts_with('/')) {
        paths.push_back("/usr/lib/debug" + folder_of(path) + *link);
    }
    return paths;
}

std::shared_ptr<const ElfFile::DebugFile> find_installed_debug_file(const std::string &root,
                                                                    const ElfFile &file,
                                                                    const std::string &path,
                                                                    const WorkLimit &limit) {
    const Fd top = open_root(root);
    for (const std::string &one : installed_debug_paths(file, path)) {
        if (Fd found = open_regular(open_path(top.get(), one, RESOLVE_IN_ROOT))) {
            if (auto debug = file.open_debug_file(std::move(found), limit)) {
                return *std::move(debug);
            }
        }
    }
    return nullptr;
}

std::shared_ptr<const ElfFile::DebugFile> find_debug_file_beside(int fd, const std::string &root,
                                                                 const ElfFile &file,
                                                                 const std::string &path,
                                                                 const WorkLimit &limit) {
    const auto link = link_of(file);
    if (!link || !path.starts_with('/')) {
        return nullptr;
    }
    // In the kernel's cache, because the library was opened there; else the folder has changed.
    const Fd folder =
        open_path(open_root(root).get(), folder_of(path), RESOLVE_IN_ROOT | RESOLVE_CACHED);
    const auto library = state_of_path(fd);
    const auto around = folder ? state_of_path(folder.get()) : std::nullopt;
    if (!library || !around || !on_one_device(*around, *library)) {
        return nullptr;
    }
    // No path below leads to another file system.
    for (const std::string &name : {*link, ".debug/" + *link}) {
        const Fd named = keep_open_elsewhere(
            open_path(folder.get(), name, RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS), library->stx_uid);
        const auto state = named ? state_of_path(named.get()) : std::nullopt;
        if (!state || !is_as_safe(*state, *library)) {
            continue;
        }
        if (Fd found{open_regular(named), named.kept()}) {
            if (auto debug = file.open_debug_file(std::move(found), limit)) {
                return *std::move(debug);
            }
        }
    }
    return nullptr;
}

std::shared_ptr<const ElfFile::DebugFile> find_debug_file(const ElfFile &file,
                                                          const DebugFilePlace &place,
                                                          const WorkLimit &limit) {
    if (file.has_symtab()) {
        return nullptr;
    }
    for (const auto *root : {"/proc/1/root", "/"}) {
        if (auto found = find_installed_debug_file(root, file, place.path, limit)) {
            return found;
        }
    }
    if (place.local_fd < 0) {
        return nullptr;
    }
    const std::string root = "/proc/" + std::to_string(place.tid) + "/root";
    return find_debug_file_beside(place.local_fd, root, file, place.path, limit);
}

void DebugFiles::add_to(ElfFile &file, const FileId &id, const DebugFilePlace &place) {
    const auto known = found_.find(id);
    auto debug = known != found_.end()
                     ? known->second
                     : find_debug_file(file, place, file.limits().work.at_most(longest_search));
    if (debug != nullptr && known == found_.end()) {
        found_.emplace(id, debug);
    }
    if (debug == nullptr && !file.has_symtab()) {
        debug = file.debug_data().value_or(nullptr);  // not kept, as it takes memory
    }
    file.use_debug_file(std::move(debug));
}

}  // namespace gpusnoop::symbols

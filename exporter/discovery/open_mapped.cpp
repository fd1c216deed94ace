#include "exporter/discovery/open_mapped.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "exporter/base/text.h"

namespace gpusnoop::discovery {

namespace {

std::string range_of(const kernel::Mapping &mapping) {
    return hexadecimal(mapping.start) + "-" + hexadecimal(mapping.end);
}

// Opens what `found` (O_PATH) stands for, if that is a regular file: opening a device or a pipe has
// effects, and a process can map what it likes.
Result<Fd> open_regular(const Fd &found, const std::string &name) {
    struct stat status{};
    if (::fstat(found.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return fail(name + " is not a regular file", EINVAL);
    }
    // Without O_NONBLOCK, a lease (F_SETLEASE in fcntl(2)) makes open() wait for its holder, 45 s.
    Fd file(::open(("/proc/self/fd/" + std::to_string(found.get())).c_str(),
                   O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file && errno == EWOULDBLOCK) {
        return fail("a process holds a lease on " + name + ": it is opened later", EWOULDBLOCK);
    }
    if (!file) {
        return fail_errno("open " + name);
    }
    return file;
}

// The kernel's own link to the file, right even after the path was replaced or unlinked. Needs
// CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
Result<Fd> open_map_file(const std::string &process, const kernel::Mapping &mapping) {
    const Fd found(
        ::open((process + "/map_files/" + range_of(mapping)).c_str(), O_PATH | O_CLOEXEC));
    if (!found) {
        return fail_errno("open map_files");
    }
    return open_regular(found, mapping.name);
}

// Below a root, whatever symbolic links the path is made of, and never through /proc's magic ones.
Result<Fd> open_below(const std::string &root_path, const std::string &path) {
    const Fd root(::open(root_path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) {
        return fail_errno("open " + root_path);
    }
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    const Fd found(
        static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof(how))));
    if (!found) {
        return fail_errno("open " + path);
    }
    return open_regular(found, path);
}

}  // namespace

std::optional<FileState> state_of_mapped(const kernel::Mapping &mapping) {
    const std::string path =
        "/proc/" + std::to_string(mapping.tid) + "/map_files/" + range_of(mapping);
    const Fd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
    return found ? state_of(found) : std::nullopt;
}

std::optional<FileState> state_of(const Fd &file) {
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) {
        return std::nullopt;
    }
    return FileState{status.st_size, std::chrono::seconds(status.st_mtim.tv_sec) +
                                         std::chrono::nanoseconds(status.st_mtim.tv_nsec)};
}

Result<std::string> mapped_path(const kernel::Mapping &mapping) {
    const std::string file = "/proc/" + std::to_string(mapping.tid) + "/maps";
    std::ifstream maps(file);
    if (!maps) {
        return fail_errno("open " + file);
    }
    for (std::string line; std::getline(maps, line);) {
        std::uint64_t start = 0;  // written with eight digits at least
        const char *const end = line.data() + line.size();
        const std::size_t path = line.find('/');
        if (std::from_chars(line.data(), end, start, 16).ec == std::errc{} &&
            start == mapping.start && path != std::string::npos) {
            constexpr std::string_view gone = " (deleted)";  // of a file without a name any more
            if (line.ends_with(gone)) {
                line.resize(line.size() - gone.size());
            }
            return line.substr(path);
        }
    }
    return fail("the mapping is gone", ESRCH);
}

Result<Fd> open_mapped(const kernel::Mapping &mapping, kernel::MappingList &mappings) {
    const std::string process = "/proc/" + std::to_string(mapping.tid);
    // Whatever way led to a file, it must be the mapped one.
    const auto is_mapped = [&](const Result<Fd> &file) {
        return file.has_value() && mappings.identify(file->get()) == mapping.file;
    };
    auto file = open_map_file(process, mapping);
    if (is_mapped(file)) {
        return file;
    }
    const auto path = mapped_path(mapping);
    if (!path) {
        return tl::unexpected(path.error());
    }
    for (const std::string &root : {process + "/root", std::string("/")}) {
        file = open_below(root, *path);
        if (is_mapped(file)) {
            return file;
        }
    }
    // It is mapped, so it is not gone: we cannot get to it.
    return fail(file ? "the path " + *path + " leads to another file" : file.error().message,
                EACCES);
}

}  // namespace gpusnoop::discovery

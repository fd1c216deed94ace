#include "exporter/discovery/open_mapped.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <string>

namespace gpusnoop::discovery {

namespace {

std::string hexadecimal(std::uint64_t value) {
    std::string text(16, '\0');
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value, 16).ptr;
    text.resize(static_cast<std::size_t>(end - text.data()));
    return text;
}

std::string range_of(const kernel::Mapping &mapping) {
    return hexadecimal(mapping.start) + "-" + hexadecimal(mapping.end);
}

// The kernel's own link to the file, right even after the path was replaced or unlinked. Needs
// CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
Result<Fd> open_map_file(const std::string &process, const kernel::Mapping &mapping) {
    Fd file(::open((process + "/map_files/" + range_of(mapping)).c_str(),
                   O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) {
        return fail_errno("open map_files");
    }
    return file;
}

// The path that /proc/PID/maps shows at this address, in the process's own mount namespace.
Result<std::string> mapped_path(const std::string &process, const kernel::Mapping &mapping) {
    std::ifstream maps(process + "/maps");
    if (!maps) {
        return fail_errno("open " + process + "/maps");
    }
    const std::string start = hexadecimal(mapping.start) + "-";
    for (std::string line; std::getline(maps, line);) {
        // Older kernels pad addresses to eight digits; ours of interest are longer.
        const std::size_t path = line.find('/');
        if (line.starts_with(start) && path != std::string::npos) {
            return line.substr(path);
        }
    }
    return fail("the mapping is gone", ESRCH);
}

Result<Fd> open_below_root(const std::string &process, const kernel::Mapping &mapping) {
    const auto path = mapped_path(process, mapping);
    if (!path) {
        return tl::unexpected(path.error());
    }
    const Fd root(::open((process + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) {
        return fail_errno("open " + process + "/root");
    }
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    const Fd found(
        static_cast<int>(::syscall(SYS_openat2, root.get(), path->c_str(), &how, sizeof(how))));
    if (!found) {
        return fail_errno("open " + *path);
    }
    struct stat status{};
    if (::fstat(found.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return fail(*path + " is not a regular file", EINVAL);
    }
    Fd file(::open(("/proc/self/fd/" + std::to_string(found.get())).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
        return fail_errno("open " + *path);
    }
    return file;
}

}  // namespace

Result<Fd> open_mapped(const kernel::Mapping &mapping, kernel::MappingList &mappings) {
    const std::string process = "/proc/" + std::to_string(mapping.tgid);
    auto file = open_map_file(process, mapping);
    if (!file) {
        file = open_below_root(process, mapping);
    }
    if (!file) {
        return file;
    }
    const auto id = mappings.identify(file->get());
    if (!id) {
        return tl::unexpected(id.error());
    }
    if (*id != mapping.file) {
        return fail("its path leads to another file now", ENOENT);
    }
    return file;
}

}  // namespace gpusnoop::discovery

#include "exporter/sinks/open_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

namespace gpusnoop::sinks {

namespace {

constexpr int file_flags = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr mode_t file_mode = 0640;
constexpr int most_links = 40;  // the kernel's limit

using Names = std::deque<std::string>;

Names split(std::string_view path) {
    Names names;
    while (!path.empty()) {
        const std::string_view name = path.substr(0, path.find('/'));
        path.remove_prefix(name.size() + (name.size() < path.size() ? 1 : 0));
        if (!name.empty() && name != ".") {
            names.emplace_back(name);
        }
    }
    return names;
}

Result<Fd> open_root() {
    Fd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) {
        return fail_errno("open /");
    }
    return root;
}

// In a directory that everybody may write to, any user can put a link, a FIFO or a file of his own.
// The sticky bit protects existing names, but does not prevent new names.
Result<> check_directory(const Fd &directory, bool is_last) {
    struct stat status{};
    if (::fstat(directory.get(), &status) != 0) {
        return fail_errno("stat the directory");
    }
    const bool everybody_writes = (status.st_mode & S_IWOTH) != 0;
    if (everybody_writes && (is_last || (status.st_mode & S_ISVTX) == 0)) {
        return fail(
            "everybody may write to a directory of its path: choose one of the exporter's own",
            EPERM);
    }
    return {};
}

bool is_below_proc(const Fd &directory) {
    struct statfs status{};
    return ::fstatfs(directory.get(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

// The target of the symbolic link `link`; an error if it is another user's.
Result<std::string> follow(const Fd &link, const struct stat &status) {
    if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
        return fail("its path leads through a symbolic link of another user", ELOOP);
    }
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlinkat(link.get(), "", target.data(), target.size());
    if (size < 0) {
        return fail_errno("read a symbolic link");
    }
    return std::string(target.data(), static_cast<std::size_t>(size));
}

// Walks from the root to the file, one name at a time.
class Walk {
public:
    Walk(Fd root, Names names) : directory_(std::move(root)), names_(std::move(names)) {}

    // The file, or empty if the walk continues.
    Result<std::optional<Fd>> step() {
        const std::string name = names_.front();
        const bool is_last = names_.size() == 1;
        if (const auto checked = check_directory(directory_, is_last); !checked) {
            return tl::unexpected(checked.error());
        }
        Fd next(::openat(directory_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        struct stat status{};
        if (next && ::fstat(next.get(), &status) != 0) {
            return fail_errno("stat a part of the path");
        }
        if (!next && !(is_last && errno == ENOENT)) {
            return fail_errno("open");
        }
        if (next && S_ISLNK(status.st_mode)) {
            // Links such as /proc/self/fd/1 are the kernel's, and their targets are not paths.
            return is_last && is_below_proc(directory_) ? open_here(name, 0)
                                                        : follow_link(next, status);
        }
        if (is_last) {
            return open_here(name, O_NOFOLLOW);
        }
        directory_ = std::move(next);
        names_.pop_front();
        return std::nullopt;
    }

private:
    [[nodiscard]] Result<std::optional<Fd>> open_here(const std::string &name, int more) const {
        Fd file(::openat(directory_.get(), name.c_str(), file_flags | more, file_mode));
        if (!file) {
            return fail_errno("open");
        }
        return std::optional<Fd>(std::move(file));
    }

    Result<std::optional<Fd>> follow_link(const Fd &link, const struct stat &status) {
        if (++links_ > most_links) {
            return fail_errno("open", ELOOP);
        }
        const auto target = follow(link, status);
        if (!target) {
            return tl::unexpected(target.error());
        }
        names_.pop_front();
        Names more = split(*target);
        names_.insert(names_.begin(), more.begin(), more.end());
        if (target->starts_with('/')) {
            auto root = open_root();
            if (!root) {
                return tl::unexpected(root.error());
            }
            directory_ = *std::move(root);
        }
        if (names_.empty()) {
            return fail_errno("open", EISDIR);
        }
        return std::nullopt;
    }

    Fd directory_;
    Names names_;
    int links_ = 0;
};

}  // namespace

Result<Fd> open_to_append(const std::string &path) {
    auto root = open_root();
    if (!root) {
        return root;
    }
    Names names = split(path);
    if (names.empty()) {
        return fail_errno("open", EISDIR);
    }
    Walk walk(*std::move(root), std::move(names));
    while (true) {
        auto opened = walk.step();
        if (!opened) {
            return tl::unexpected(opened.error());
        }
        if (*opened) {
            return *std::move(*opened);
        }
    }
}

}  // namespace gpusnoop::sinks

#include "exporter/ebpf/maps/pins.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>

#include "exporter/base/log.h"
#include "exporter/ebpf/maps/hash_map.h"

namespace gpusnoop::ebpf {

namespace {

namespace fs = std::filesystem;

constexpr long bpf_fs_magic = 0xcafe4a11;  // include/uapi/linux/magic.h

// The table of the names of all other pins. A name is in it only while there is the pin: it is
// added after pinning, and removed before unpinning, so that no kill makes one that seems missing.
constexpr const char *names_pin = "map_pins";
constexpr std::uint32_t max_pins = 65'536;
using Name = std::array<char, 256>;  // the longest name of a file, and a NUL
using NameValue = std::uint32_t;     // of no meaning

Name to_key(std::string_view name) {
    Name key{};
    std::copy_n(name.begin(), std::min(name.size(), key.size() - 1), key.begin());
    return key;
}

std::vector<std::string> entries_of(const std::string &directory) {
    std::vector<std::string> names;
    std::error_code error;
    for (auto entry = fs::directory_iterator(directory, error);
         !error && entry != fs::directory_iterator(); entry.increment(error)) {
        names.push_back(entry->path().filename().string());
    }
    std::ranges::sort(names);
    return names;
}

tl::unexpected<Error> no_bpf_fs(const std::string &root) {
    return fail(root + " is not in a BPF file system (mount -t bpf bpf /sys/fs/bpf)");
}

// The directory, locked.
Result<Fd> lock(const std::string &root) {
    Fd directory(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!directory) {
        return fail_errno("open " + root);
    }
    struct statfs file_system{};
    if (::fstatfs(directory.get(), &file_system) != 0) {
        return fail_errno("read the file system type of " + root);
    }
    if (file_system.f_type != bpf_fs_magic) {
        return no_bpf_fs(root);
    }
    if (::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK ? fail("another exporter uses the pins in " + root)
                                    : fail_errno("lock " + root);
    }
    return directory;
}

unsigned remove_below(const std::string &directory) {
    unsigned removed = 0;
    for (const std::string &name : entries_of(directory)) {
        const std::string path = directory + "/" + name;
        std::error_code error;
        if (fs::is_directory(fs::symlink_status(path, error))) {
            removed += remove_below(path);
            ::rmdir(path.c_str());
        } else if (::unlink(path.c_str()) == 0) {
            removed++;
        }
    }
    return removed;
}

}  // namespace

Result<Pins> Pins::open(const std::string &root, const std::string &generation) {
    if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) {
        const auto error = fail_errno("make " + root);
        struct statfs file_system{};
        const bool is_known = ::statfs(fs::path(root).parent_path().c_str(), &file_system) == 0;
        return is_known && file_system.f_type != bpf_fs_magic ? no_bpf_fs(root) : error;
    }
    auto locked = lock(root);
    if (!locked) {
        return tl::unexpected(locked.error());
    }
    for (const std::string &other : entries_of(root)) {
        if (other != generation) {
            const unsigned removed = remove_below(root + "/" + other);
            ::rmdir((root + "/" + other).c_str());
            if (removed > 0) {
                log::warn(
                    "removed the pins of another version or configuration: its live allocations "
                    "are lost",
                    {{"pins", root + "/" + other}, {"objects", std::to_string(removed)}});
            }
        }
    }
    const std::string directory = root + "/" + generation;
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
        return fail_errno("make " + directory);
    }
    Pins pins(std::move(*locked), directory);
    if (auto opened = pins.open_names(); !opened) {
        return tl::unexpected(opened.error());
    }
    return pins;
}

Result<> Pins::open_names() {
    if (auto kept = get(names_pin)) {
        names_ = std::move(*kept);
        return {};
    }
    if (!entries_of(directory_).empty()) {
        return {};
    }
    LIBBPF_OPTS(bpf_map_create_opts, options);
    options.map_flags = BPF_F_NO_PREALLOC;
    Fd made(bpf_map_create(BPF_MAP_TYPE_HASH, "pins", sizeof(Name), sizeof(NameValue), max_pins,
                           &options));
    if (!made) {
        return fail_errno("make the table of pins");
    }
    if (auto pinned = pin(made.get(), names_pin); !pinned) {
        return pinned;
    }
    names_ = std::move(made);
    return {};
}

std::vector<std::string> Pins::missing() const {
    if (!names_) {
        return {names_pin};
    }
    std::vector<std::string> missing;
    const std::vector<std::string> all = entries_of(directory_);
    (void)for_each<Name, NameValue>(names_.get(), [&](const Name &name, NameValue) {
        if (!std::ranges::binary_search(all, std::string_view(name.data()))) {
            missing.emplace_back(name.data());
        }
    });
    std::ranges::sort(missing);
    return missing;
}

void Pins::note(std::string_view name) const {
    const Name key = to_key(name);
    const NameValue value = 1;
    if (names_) {
        (void)bpf_map_update_elem(names_.get(), &key, &value, BPF_ANY);
    }
}

void Pins::note_all() const {
    for (const std::string &name : entries_of(directory_)) {
        if (name != names_pin) {
            note(name);
        }
    }
}

std::string Pins::path_of(std::string_view name) const {
    return directory_ + "/" + std::string(name);
}

std::vector<std::string> Pins::names(std::string_view prefix) const {
    std::vector<std::string> names = entries_of(directory_);
    std::erase_if(names, [&](const std::string &name) { return !name.starts_with(prefix); });
    return names;
}

Result<> Pins::pin(int fd, std::string_view name) const {
    const int error = bpf_obj_pin(fd, path_of(name).c_str());
    if (error != 0) {
        return fail_errno("pin " + path_of(name), -error);
    }
    note(name);
    return {};
}

Result<Fd> Pins::get(std::string_view name) const {
    Fd fd(bpf_obj_get(path_of(name).c_str()));
    if (!fd) {
        return fail_errno("open the pin " + path_of(name));
    }
    return fd;
}

void Pins::remove(std::string_view name) const {
    const Name key = to_key(name);
    if (names_) {
        (void)bpf_map_delete_elem(names_.get(), &key);
    }
    ::unlink(path_of(name).c_str());
}

unsigned Pins::remove_all() const {
    const unsigned removed = remove_below(directory_);
    ::rmdir(directory_.c_str());
    ::rmdir(fs::path(directory_).parent_path().c_str());
    return removed;
}

bool has_pins(const std::string &root) {
    return !entries_of(root).empty() && lock(root).has_value();
}

Result<unsigned> remove_pins(const std::string &root) {
    std::error_code error;
    if (!fs::exists(root, error)) {
        return 0U;
    }
    const auto locked = lock(root);
    if (!locked) {
        return tl::unexpected(locked.error());
    }
    const unsigned removed = remove_below(root);
    ::rmdir(root.c_str());
    return removed;
}

}  // namespace gpusnoop::ebpf

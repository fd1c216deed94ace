// Which files may stay attached to when nobody uses them: a probe keeps the mount of its file, and
// the file's space, from being given back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "exporter/base/fd.h"

namespace gpusnoop::discovery {

// The mounts of a namespace.
class Mounts {
public:
    // What /proc/PID/mountinfo has.
    explicit Mounts(std::string_view mountinfo);
    static Mounts of_process(std::uint32_t tid);

    // The device of the file system that is mounted: "MAJOR:MINOR".
    [[nodiscard]] std::optional<std::string> device(int mount) const;
    // The devices of the root, and of the folders where programs are installed. On the host, these
    // stay as long as it runs; others come and go: of containers, of removable disks.
    [[nodiscard]] std::set<std::string> lasting_devices() const;

private:
    std::map<int, std::string> devices_;
    std::map<std::string, std::string, std::less<>> lasting_;  // by place
};

// The id of the mount by which the file was opened. Does not ask the file system.
[[nodiscard]] std::optional<int> mount_of(const Fd &file);

// Whether the file, which was opened as the thread sees it, is on a file system that the host
// keeps. The layers of a container are such files only by another mount than the container's.
[[nodiscard]] bool is_on_lasting_mount(const Fd &file, std::uint32_t tid);

// Whether no path leads to the file any more, as far as this machine knows. Does not ask the file
// system.
[[nodiscard]] bool is_deleted(const Fd &file);

}  // namespace gpusnoop::discovery

#include "exporter/discovery/host_mounts.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>

#include "exporter/base/read_file.h"

namespace gpusnoop::discovery {

namespace {

constexpr std::array<std::string_view, 6> lasting = {"/",    "/usr", "/usr/local",
                                                     "/opt", "/var", "/home"};
constexpr std::size_t max_mountinfo_bytes = 8U << 20;

std::string_view next_part(std::string_view &text, char end) {
    const std::size_t at = std::min(text.find(end), text.size());
    const std::string_view part = text.substr(0, at);
    text.remove_prefix(std::min(at + 1, text.size()));
    return part;
}

std::optional<int> to_number(std::string_view text) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(number)
                                                                    : std::nullopt;
}

}  // namespace

// "36 35 98:0 / /mount/point options ...": of mounts at one place, the last is in sight.
Mounts::Mounts(std::string_view mountinfo) {
    while (!mountinfo.empty()) {
        std::string_view line = next_part(mountinfo, '\n');
        const auto id = to_number(next_part(line, ' '));
        (void)next_part(line, ' ');
        const std::string device(next_part(line, ' '));
        (void)next_part(line, ' ');
        const std::string_view place = next_part(line, ' ');
        if (!id || place.empty()) {
            continue;
        }
        devices_[*id] = device;
        if (std::ranges::find(lasting, place) != lasting.end()) {
            lasting_[std::string(place)] = device;
        }
    }
}

Mounts Mounts::of_process(std::uint32_t tid) {
    const std::string path = "/proc/" + std::to_string(tid) + "/mountinfo";
    return Mounts(read_start(path, max_mountinfo_bytes).value_or(""));
}

std::optional<std::string> Mounts::device(int mount) const {
    const auto found = devices_.find(mount);
    return found == devices_.end() ? std::nullopt : std::optional(found->second);
}

std::set<std::string> Mounts::lasting_devices() const {
    std::set<std::string> devices;
    for (const auto &[place, device] : lasting_) {
        devices.insert(device);
    }
    return devices;
}

std::optional<int> mount_of(const Fd &file) {
    const auto info = read_start("/proc/self/fdinfo/" + std::to_string(file.get()), 4096);
    std::string_view text = info ? std::string_view(*info) : std::string_view();
    while (!text.empty()) {
        std::string_view line = next_part(text, '\n');
        if (next_part(line, '\t') == "mnt_id:") {
            return to_number(line);
        }
    }
    return std::nullopt;
}

bool is_on_lasting_mount(const Fd &file, std::uint32_t tid) {
    const auto mount = mount_of(file);
    if (!mount) {
        return false;
    }
    // The thread may have ended; most are in the namespace of process 1.
    const Mounts host = Mounts::of_process(1);
    auto device = host.device(*mount);
    if (!device) {
        device = Mounts::of_process(tid).device(*mount);
    }
    return device && host.lasting_devices().contains(*device);
}

bool is_deleted(const Fd &file) {
    struct statx status{};
    return ::statx(file.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_NLINK, &status) == 0 &&
           status.stx_nlink == 0;
}

}  // namespace gpusnoop::discovery

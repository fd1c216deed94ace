#include "exporter/discovery/proc.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>
#include <string_view>

#include "exporter/base/fd.h"

namespace gpusnoop::discovery {

namespace {

std::string path_of(std::uint32_t tgid, std::string_view file) {
    return "/proc/" + std::to_string(tgid) + "/" + std::string(file);
}

// Files of /proc are short; a hostile one is not read to its end.
std::string read_start(const std::string &path) {
    constexpr std::size_t most = 64 * 1024;
    std::ifstream file(path, std::ios::binary);
    std::string text(most, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
}

std::chrono::nanoseconds tick() {
    return std::chrono::nanoseconds(1'000'000'000 / ::sysconf(_SC_CLK_TCK));
}

}  // namespace

namespace {

// Field `number` of /proc/PID/stat, counted as in proc_pid_stat(5).
Result<std::int64_t> stat_field(std::uint32_t tgid, int number) {
    const Fd file(::open(path_of(tgid, "stat").c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 1024> bytes;  // the line has some 300
    const ssize_t got = file ? ::read(file.get(), bytes.data(), bytes.size()) : -1;
    if (got < 0) {
        return fail_errno("read " + path_of(tgid, "stat"));
    }
    const std::string_view stat(bytes.data(), static_cast<std::size_t>(got));
    // The name may contain anything, so count the fields from its closing parenthesis: field 2.
    std::size_t at = stat.rfind(')');
    for (int field = 2; field < number && at != std::string_view::npos; field++) {
        at = stat.find(' ', at + 1);
    }
    std::int64_t value = 0;
    if (at == std::string_view::npos ||
        std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), value).ec != std::errc{}) {
        return fail(path_of(tgid, "stat") + " is not as expected", EINVAL);
    }
    return value;
}

}  // namespace

Result<std::chrono::nanoseconds> start_time(std::uint32_t tgid) {
    const auto ticks = stat_field(tgid, 22);
    if (!ticks) {
        return tl::unexpected(ticks.error());
    }
    return *ticks * tick();
}

std::optional<std::uint32_t> parent_of(std::uint32_t tgid) {
    const auto parent = stat_field(tgid, 4);
    return parent ? std::optional(static_cast<std::uint32_t>(*parent)) : std::nullopt;
}

std::string name_of(std::uint32_t tgid) {
    std::string name = read_start(path_of(tgid, "comm"));
    if (name.ends_with('\n')) {
        name.pop_back();
    }
    return name;
}

Presence presence(std::uint32_t tgid, std::chrono::nanoseconds started) {
    const auto now = start_time(tgid);
    if (!now) {
        const int code = now.error().code;
        return code == ENOENT || code == ESRCH ? Presence::gone : Presence::unsure;
    }
    return *now <= started && started < *now + tick() ? Presence::running : Presence::gone;
}

std::string executable_path(std::uint32_t tgid) {
    std::array<char, 4096> path;
    const ssize_t length = ::readlink(path_of(tgid, "exe").c_str(), path.data(), path.size());
    return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "";
}

ContainerIdentity container_of(std::uint32_t tgid) {
    return parse_cgroup_file(read_start(path_of(tgid, "cgroup")));
}

}  // namespace gpusnoop::discovery

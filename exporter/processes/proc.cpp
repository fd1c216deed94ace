#include "exporter/processes/proc.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "exporter/base/read_file.h"

namespace gpusnoop::processes {

namespace {

std::string path_of(std::uint32_t tgid, std::string_view file) {
    return "/proc/" + std::to_string(tgid) + "/" + std::string(file);
}

// Field `number` of /proc/PID/stat, counted as in proc_pid_stat(5).
Result<std::int64_t> stat_field(std::uint32_t tgid, int number) {
    const auto line = read_start(path_of(tgid, "stat"), 1024);  // it has about 300 bytes
    if (!line) {
        return tl::unexpected(line.error());
    }
    const std::string_view stat(*line);
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

// What /proc/TGID/status says after "KEY:\t"; empty if it cannot be read.
std::string status_line(std::uint32_t tgid, std::string_view key) {
    const std::string status = read_start(path_of(tgid, "status")).value_or("");
    // In a name, a line break is written as \n.
    const std::string begin = "\n" + std::string(key) + ":\t";
    const std::size_t at = status.find(begin);
    if (at == std::string::npos) {
        return "";
    }
    const std::size_t from = at + begin.size();
    return status.substr(from, status.find('\n', from) - from);
}

std::optional<std::uint32_t> first_number(std::string_view text) {
    std::uint32_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    return read.ec == std::errc{} ? std::optional(number) : std::nullopt;
}

// The user who owns a cgroup's directory. Nothing: it cannot be seen from here.
std::optional<uid_t> owner_of_cgroup(std::string_view controllers,
                                     std::span<const std::string_view> directories) {
    std::string path = "/";
    for (const std::string_view name : directories) {
        if (name == "..") {  // outside of the cgroup namespace that this process is in
            return std::nullopt;
        }
        path += '/';
        path += name;
    }
    constexpr std::string_view named = "name=";  // a v1 hierarchy without controllers
    controllers.remove_prefix(controllers.starts_with(named) ? named.size() : 0);
    const std::string_view of_v2 = "unified";  // beside hierarchies of v1
    for (const std::string_view hierarchy :
         {controllers.empty() ? of_v2 : controllers, std::string_view()}) {
        struct stat status{};
        const std::string at = "/sys/fs/cgroup/" + std::string(hierarchy) + path;
        if (::stat(at.c_str(), &status) == 0) {
            return status.st_uid;
        }
    }
    return std::nullopt;
}

}  // namespace

Result<std::chrono::nanoseconds> start_time(std::uint32_t tgid) {
    const auto ticks = stat_field(tgid, 22);
    if (!ticks) {
        return tl::unexpected(ticks.error());
    }
    return *ticks * clock_tick();
}

std::int64_t stack_start_of(std::uint32_t tgid) {
    return stat_field(tgid, 28).value_or(0);
}

std::optional<std::uint32_t> parent_of(std::uint32_t tgid) {
    const auto parent = stat_field(tgid, 4);
    return parent ? std::optional(static_cast<std::uint32_t>(*parent)) : std::nullopt;
}

std::optional<std::uint32_t> user_of(std::uint32_t tgid) {
    return first_number(status_line(tgid, "Uid"));
}

std::optional<std::uint32_t> innermost_id_of(std::uint32_t tgid) {
    const std::string ids = status_line(tgid, "NSpid");
    return first_number(std::string_view(ids).substr(ids.rfind('\t') + 1));
}

std::string name_of(std::uint32_t tgid) {
    std::string name = read_start(path_of(tgid, "comm")).value_or("");
    if (name.ends_with('\n')) {
        name.pop_back();
    }
    return name;
}

std::vector<std::uint32_t> all_processes() {
    std::vector<std::uint32_t> tgids;
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/proc", error)) {
        const std::string name = entry.path().filename();
        std::uint32_t tgid = 0;
        const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), tgid);
        if (wrong == std::errc() && end == name.data() + name.size()) {
            tgids.push_back(tgid);
        }
    }
    return tgids;
}

bool is_runnable(std::uint32_t tgid) {
    const auto stat = read_start(path_of(tgid, "stat"), 256);
    const std::size_t name_end = stat ? stat->rfind(')') : std::string::npos;
    return name_end != std::string::npos && name_end + 2 < stat->size() &&
           (*stat)[name_end + 2] == 'R';
}

std::chrono::nanoseconds time_unblocked_of(std::uint32_t tgid) {
    const std::string times = read_start(path_of(tgid, "schedstat"), 256).value_or("");
    const char *const end = times.data() + times.size();
    std::int64_t ran = 0;
    std::int64_t waited = 0;
    const auto first = std::from_chars(times.data(), end, ran);
    if (first.ec != std::errc() || first.ptr == end ||
        std::from_chars(first.ptr + 1, end, waited).ec != std::errc()) {
        return cpu_time_of(tgid).value_or(std::chrono::nanoseconds(0));
    }
    return std::chrono::nanoseconds(ran + waited);
}

std::chrono::nanoseconds clock_tick() {
    return std::chrono::nanoseconds(1'000'000'000 / ::sysconf(_SC_CLK_TCK));
}

Presence presence(std::uint32_t tgid, std::chrono::nanoseconds started) {
    const auto now = start_time(tgid);
    if (!now) {
        const int code = now.error().code;
        return code == ENOENT || code == ESRCH ? Presence::gone : Presence::unsure;
    }
    return *now <= started && started < *now + clock_tick() ? Presence::running : Presence::gone;
}

std::string executable_path(std::uint32_t tgid) {
    std::array<char, 4096> path;
    const ssize_t length = ::readlink(path_of(tgid, "exe").c_str(), path.data(), path.size());
    return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "";
}

CgroupOwner cgroup_owner_of(std::uint32_t tgid, bool unseen_is_roots) {
    return parse_cgroup_owner(cgroups_of(tgid), [&](std::string_view controllers, auto path) {
        const auto owner = owner_of_cgroup(controllers, path);
        return owner ? *owner != 0 : !unseen_is_roots;
    });
}

std::string cgroups_of(std::uint32_t tgid) {
    return read_start(path_of(tgid, "cgroup")).value_or("");
}

bool has_ended(std::uint32_t tgid) {
    return ::kill(static_cast<pid_t>(tgid), 0) != 0 && errno == ESRCH;
}

std::optional<std::chrono::nanoseconds> cpu_time_of(std::uint32_t tgid) {
    clockid_t clock{};
    timespec ran{};
    if (tgid == 0 || ::clock_getcpuclockid(static_cast<pid_t>(tgid), &clock) != 0 ||
        ::clock_gettime(clock, &ran) != 0) {
        return std::nullopt;
    }
    return std::chrono::seconds(ran.tv_sec) + std::chrono::nanoseconds(ran.tv_nsec);
}

}  // namespace gpusnoop::processes

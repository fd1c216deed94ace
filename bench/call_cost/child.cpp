#include "bench/call_cost/child.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <utility>

namespace gpusnoop::bench {

namespace {

namespace fs = std::filesystem;

// posix_spawn's list of actions on descriptors.
class FileActions {
public:
    FileActions() { ::posix_spawn_file_actions_init(&actions_); }
    ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
    FileActions(const FileActions &) = delete;
    FileActions &operator=(const FileActions &) = delete;
    posix_spawn_file_actions_t *get() { return &actions_; }

private:
    posix_spawn_file_actions_t actions_{};
};

}  // namespace

std::optional<fs::path> find_program(const std::string &name) {
    const char *path = std::getenv("PATH");
    std::istringstream folders(std::string(path == nullptr ? "" : path) + ":/usr/sbin");
    for (std::string folder; std::getline(folders, folder, ':');) {
        const fs::path program = fs::path(folder) / name;
        if (::access(program.c_str(), X_OK) == 0) {
            return program;
        }
    }
    return std::nullopt;
}

Result<Child> Child::start(const fs::path &program, std::vector<std::string> arguments) {
    Fd errors(::memfd_create("stderr", MFD_CLOEXEC));
    if (!errors) {
        return fail_errno("make a file for messages");
    }
    FileActions actions;
    ::posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(actions.get(), STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_adddup2(actions.get(), errors.get(), STDERR_FILENO);
    arguments.insert(arguments.begin(), program.string());
    std::vector<char *> argv;
    for (std::string &argument : arguments) {
        argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    pid_t pid = -1;
    const int error =
        ::posix_spawn(&pid, program.c_str(), actions.get(), nullptr, argv.data(), ::environ);
    if (error != 0) {
        return fail_errno("start " + program.string(), error);
    }
    return Child(pid, std::move(errors));
}

Child::Child(Child &&other) noexcept
    : pid_(std::exchange(other.pid_, -1)), errors_(std::move(other.errors_)) {}

Child::~Child() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
}

bool Child::ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
}

std::size_t Child::attached_ends() const {
    std::size_t ends = 0;
    std::error_code error;
    for (const auto &entry :
         fs::directory_iterator("/proc/" + std::to_string(pid_) + "/fd", error)) {
        const std::string number = entry.path().filename().string();
        int fd = -1;
        std::from_chars(number.data(), number.data() + number.size(), fd);
        std::array<char, 256> name{};
        auto size = static_cast<std::uint32_t>(name.size());
        std::uint32_t program = 0;
        std::uint32_t type = 0;
        __u64 offset = 0;
        __u64 address = 0;
        if (::bpf_task_fd_query(pid_, fd, 0, name.data(), &size, &program, &type, &offset,
                                &address) == 0 &&
            (type == BPF_FD_TYPE_UPROBE || type == BPF_FD_TYPE_URETPROBE)) {
            ends++;
        }
    }
    return ends;
}

std::string Child::complaint() const {
    std::string text(1000, '\0');
    const auto size = ::pread(errors_.get(), text.data(), text.size(), 0);
    text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return text.empty() ? "it said nothing" : "it said: " + text;
}

Result<> Child::wait_until_attached(std::size_t ends) const {
    constexpr int tries = 3000;  // 30 seconds
    std::size_t attached = 0;
    for (int i = 0; i < tries && !ended(); i++) {
        attached = attached_ends();
        if (attached >= ends) {
            return {};
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return fail("attached " + std::to_string(attached) + " of " + std::to_string(ends) +
                " programs; " + complaint());
}

}  // namespace gpusnoop::bench

#include "exporter/system/forking_process.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <thread>
#include <utility>

#include "exporter/system/descriptor_message.h"

namespace gpusnoop {

ForkingProcess &ForkingProcess::of_this_process() {
    static ForkingProcess process;
    return process;
}

ForkingProcess::~ForkingProcess() {
    if (std::exchange(socket_, Fd())) {
        reap();
    }
}

Result<> ForkingProcess::start() {
    const std::lock_guard lock(mutex_);
    return socket_ ? Result<>() : start_locked();
}

Result<ForkingProcess::Child> ForkingProcess::fork_child(reader::Child kind,
                                                         const std::array<int, 2> &descriptors,
                                                         std::chrono::milliseconds most) {
    const std::unique_lock lock(mutex_, most);
    if (!lock) {
        return fail("the process that starts readers does not answer", ETIMEDOUT);
    }
    const reader::ForkRequest request{kind, ::getpriority(PRIO_PROCESS, 0)};
    if (socket_) {
        if (auto child = ask(request, descriptors, most); child || child.error().code != EPIPE) {
            return child;
        }
        stop();
    }
    if (const auto started = start_locked(); !started) {
        return tl::unexpected(started.error());
    }
    return ask(request, descriptors, most);
}

Result<> ForkingProcess::start_locked() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return fail_errno("make sockets for the process that starts readers");
    }
    Fd ours(ends[0]);
    Fd its(ends[1]);
    pid_ = ::fork();
    if (pid_ < 0) {
        return fail_errno("start the process that starts readers");
    }
    if (pid_ == 0) {
        reader::fork_children(its.get());
    }
    its = Fd();  // if it ends, its end of the sockets is closed
    socket_ = std::move(ours);
    // Until now it may have copies of this process's descriptors.
    std::byte ready{};
    if (receive_message(socket_.get(), {&ready, 1}, {}) != 1) {
        stop();
        return fail("the process that starts readers has ended", EPIPE);
    }
    return {};
}

Result<ForkingProcess::Child> ForkingProcess::ask(const reader::ForkRequest &request,
                                                  const std::array<int, 2> &descriptors,
                                                  std::chrono::milliseconds most) {
    if (!send_message(socket_.get(), std::as_bytes(std::span(&request, 1)), descriptors)) {
        return fail("the process that starts readers has ended", EPIPE);
    }
    if (!becomes_readable(socket_.get(), most)) {
        // Its answer must not be taken for the next one's.
        stop();
        return fail("the process that starts readers does not answer", ETIMEDOUT);
    }
    reader::Forked forked{};
    int process = -1;
    if (receive_message(socket_.get(), std::as_writable_bytes(std::span(&forked, 1)),
                        {&process, 1}) != sizeof(forked)) {
        return fail("the process that starts readers has ended", EPIPE);
    }
    if (forked.error != 0) {
        return fail_errno("start a process that reads files", forked.error);
    }
    if (process < 0) {
        return fail_errno("receive a process that reads files", EMFILE);
    }
    return Child{forked.pid, Fd(process)};
}

void ForkingProcess::stop() {
    socket_ = Fd();
    ::kill(pid_, SIGKILL);
    reap();
}

// Not for long: while a process keeps its mappings locked, one that forks can neither go on nor be
// killed.
void ForkingProcess::reap() const {
    for (int i = 0; i < 100 && ::waitpid(pid_, nullptr, WNOHANG) == 0; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace gpusnoop

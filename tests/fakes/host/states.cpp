#include "host/states.h"

#include "host/notes.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <linux/futex.h>
#include <pty.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace spends {

void check(bool is_right, const char *what) {
    if (!is_right) {
        std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
        std::exit(1);
    }
}

void sleep_for(int ms) {
    timespec left{ms / 1000, (ms % 1000) * 1'000'000L};
    while (::nanosleep(&left, &left) != 0) {
    }
}

void burn_us(int us) {
    for (const std::uint64_t end = cpu_ns() + static_cast<std::uint64_t>(us) * 1'000;
         cpu_ns() < end;) {
    }
}

void burn(int ms) {
    burn_us(ms * 1'000);
}

void burn_wall(int ms) {
    for (const std::uint64_t end = wall_ns() + static_cast<std::uint64_t>(ms) * 1'000'000;
         wall_ns() < end;) {
    }
}

void wait_on_futex(int ms) {
    std::uint32_t word = 0;
    const timespec limit{ms / 1000, (ms % 1000) * 1'000'000L};
    ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &limit, nullptr, 0);
}

namespace {

// A thread that writes a byte after so long, or eight.
std::thread writes_later(int descriptor, int ms) {
    return std::thread([=] {
        sleep_for(ms);
        const std::uint64_t one = 1;
        check(::write(descriptor, &one, sizeof(one)) > 0, "write");
    });
}

// Blocks in `take` until the other end is written to.
void take_from(int from, int to, int ms, const std::function<ssize_t(int, void *)> &take) {
    std::thread writer = writes_later(to, ms);
    std::uint64_t byte = 0;
    check(take(from, &byte) > 0, "read");
    writer.join();
    ::close(from);
    if (to != from) {
        ::close(to);
    }
}

ssize_t read_it(int from, void *to) {
    return ::read(from, to, 8);
}
ssize_t receive_it(int from, void *to) {
    return ::recv(from, to, 8, 0);
}

void read_socket_by(int ms, const std::function<ssize_t(int, void *)> &take) {
    std::array<int, 2> ends{};
    check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "socketpair");
    take_from(ends[0], ends[1], ms, take);
}

}  // namespace

void read_pipe(int ms) {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe");
    take_from(ends[0], ends[1], ms, read_it);
}

void read_socket(int ms) {
    read_socket_by(ms, read_it);
}

void receive(int ms) {
    read_socket_by(ms, receive_it);
}

void read_terminal(int ms) {
    int master = -1;
    int terminal = -1;
    check(::openpty(&master, &terminal, nullptr, nullptr, nullptr) == 0, "openpty");
    std::thread writer([=] {
        sleep_for(ms);
        check(::write(master, "line\n", 5) == 5, "write");
    });
    std::array<char, 8> line{};
    check(::read(terminal, line.data(), line.size()) > 0, "read");
    writer.join();
    ::close(master);
    ::close(terminal);
}

void read_event(int ms) {
    const int event = ::eventfd(0, EFD_CLOEXEC);
    take_from(event, event, ms, read_it);
}

void wait_for_child(int ms) {
    const pid_t child = ::fork();
    if (child == 0) {
        sleep_for(ms);
        ::_exit(0);
    }
    check(::waitpid(child, nullptr, 0) == child, "waitpid");
}

void stop(int ms) {
    const pid_t self = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        sleep_for(ms);
        ::kill(self, SIGCONT);
        ::_exit(0);
    }
    ::kill(self, SIGSTOP);
    ::waitpid(child, nullptr, 0);
}

void compete(int ms) {
    std::array<pid_t, 2> others{};
    for (pid_t &other : others) {
        other = ::fork();
        if (other == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (true) {
            }
        }
    }
    burn_wall(ms);
    for (const pid_t other : others) {
        ::kill(other, SIGKILL);
        ::waitpid(other, nullptr, 0);
    }
}

}  // namespace spends

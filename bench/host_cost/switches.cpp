// switches: two threads that give one CPU to each other, for bench/host_cost.py. It reads commands
// and answers each with a line:
//
//   launch     both threads launch a kernel: they are launching threads from now on. "launched"
//   follow     a third thread launches one, and ends: the process is followed, under the name
//              "followed", and the two are threads of it that launch nothing. "followed"
//   futex N    each wakes the other N times by a futex, and waits: the nanoseconds of a switch
//   pipe N     the same by a byte in a pipe
//   connect N  makes N TCP connections to itself and closes both ends: the nanoseconds of one
//   attach     the empty program to the hook of switches. "attached"
//   detach     "detached"

#include <arpa/inet.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <semaphore>
#include <string>
#include <thread>

#include <bpf/libbpf.h>

#include "empty_switch.skel.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/object.h"
#include "workload/kernels.h"

using namespace gpusnoop;

namespace {

[[noreturn]] void give_up(const char *what) {
    std::perror(what);
    std::exit(1);
}

class Pipe {
public:
    Pipe() {
        if (::pipe(ends_.data()) != 0) {
            give_up("pipe");
        }
    }

    void give() const {
        const char byte = 1;
        if (::write(ends_[1], &byte, 1) != 1) {
            give_up("write");
        }
    }

    void take() const {
        char byte = 0;
        if (::read(ends_[0], &byte, 1) != 1) {
            give_up("read");
        }
    }

private:
    std::array<int, 2> ends_{};  // until the program ends
};

class Futex {
public:
    void give() {
        word_ = 1;
        (void)::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }

    void take() {
        while (word_ == 0) {
            (void)::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
        }
        word_ = 0;
    }

private:
    std::atomic<std::uint32_t> word_ = 0;
};

struct Work {
    std::string what;  // of the second thread: "launch", "futex" or "pipe"
    unsigned times = 0;
};

// The two ends of each way, and what the second thread is told.
struct Shared {
    std::array<Pipe, 2> pipes;
    std::array<Futex, 2> futexes;
    Work work;
    std::binary_semaphore begin{0};
    std::binary_semaphore done{0};
};

void launch_kernel() {
    demo::launch({1, 1, 1}, {32, 1, 1}, vectorAdd, nullptr, nullptr, nullptr, 1);
}

void stay_on_first_cpu() {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    if (::sched_setaffinity(0, sizeof(cpus), &cpus) != 0) {
        give_up("sched_setaffinity");
    }
}

template <typename End>
void answer(std::array<End, 2> &ends, unsigned times) {
    for (unsigned i = 0; i < times; i++) {
        ends[0].take();
        ends[1].give();
    }
}

template <typename End>
void ask(std::array<End, 2> &ends, unsigned times) {
    for (unsigned i = 0; i < times; i++) {
        ends[0].give();
        ends[1].take();
    }
}

void second_thread(Shared &shared) {
    for (;;) {
        shared.begin.acquire();
        if (shared.work.what == "launch") {
            launch_kernel();
        } else if (shared.work.what == "pipe") {
            answer(shared.pipes, shared.work.times);
        } else {
            answer(shared.futexes, shared.work.times);
        }
        shared.done.release();
    }
}

double nanoseconds_of_a_switch(Shared &shared) {
    const auto began = std::chrono::steady_clock::now();
    shared.begin.release();
    if (shared.work.what == "pipe") {
        ask(shared.pipes, shared.work.times);
    } else {
        ask(shared.futexes, shared.work.times);
    }
    shared.done.acquire();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
    return took.count() / (2.0 * shared.work.times);
}

double nanoseconds_of_a_connection(int times) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto *const name = reinterpret_cast<sockaddr *>(&address);
    socklen_t size = sizeof(address);
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::bind(listener, name, size) != 0 || ::getsockname(listener, name, &size) != 0 ||
        ::listen(listener, 1) != 0) {
        give_up("listen");
    }
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < times; i++) {
        const int client = ::socket(AF_INET, SOCK_STREAM, 0);
        if (::connect(client, name, size) != 0) {
            give_up("connect");
        }
        const linger at_once{1, 0};  // by a reset, so that no port has to wait
        ::setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        const int server = ::accept(listener, nullptr, nullptr);
        ::close(client);
        ::close(server);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
    ::close(listener);
    return took.count() / times;
}

struct Empty {
    ebpf::Skeleton<empty_switch_bpf> skeleton;
    ebpf::Link link;

    void attach() {
        if (!skeleton) {
            skeleton.reset(empty_switch_bpf::open_and_load());
        }
        if (skeleton) {
            link.reset(bpf_program__attach(skeleton->progs.empty_switch));
        }
        if (!link) {
            give_up("cannot attach the empty program");
        }
    }
};

}  // namespace

int main() {
    stay_on_first_cpu();
    Shared shared;
    std::thread(second_thread, std::ref(shared)).detach();
    Empty empty;
    for (std::string word; std::cin >> word;) {
        shared.work = {word, 0};
        if (word == "attach") {
            empty.attach();
            std::cout << "attached" << std::endl;
        } else if (word == "detach") {
            empty.link.reset();
            std::cout << "detached" << std::endl;
        } else if (int times = 0; word == "connect" && std::cin >> times) {
            std::cout << nanoseconds_of_a_connection(times) << std::endl;
        } else if (word == "launch") {
            launch_kernel();
            shared.begin.release();
            shared.done.acquire();
            std::cout << "launched" << std::endl;
        } else if (word == "follow") {
            ::prctl(PR_SET_NAME, "followed");
            std::thread(launch_kernel).join();
            std::cout << "followed" << std::endl;
        } else if ((word == "futex" || word == "pipe") && std::cin >> shared.work.times) {
            std::cout << nanoseconds_of_a_switch(shared) << std::endl;
        } else {
            std::fprintf(stderr, "switches: \"%s\" is no command\n", word.c_str());
            return 1;
        }
    }
    std::_Exit(0);  // the second thread waits for ever
}

// lives STEP...: starts processes and ends them in every way, one step after the other. Children
// die with it.
//
//   name COMM           of the process
//   cuda                a CUDA call
//   wait                prints "waiting K", K counted from 1, and waits for SIGUSR1
//   exit CODE
//   threads N           that wait
//   burn MS             of CPU time
//   rest MS
//   short N             threads, one after the other, that burn 5 ms and touch a MiB each
//   pin CPU             to this CPU
//   touch MIB           memory, which it keeps
//   write MIB           to a file in /var/tmp that nobody sees
//   exec                becomes this program again, which does the steps that follow
//
// CUDA calls (calls.h):
//
//   allocate BYTES      which it keeps
//   pinned BYTES        of the host's memory
//   free                what was allocated first
//   device N            becomes the current one
//   call FUNCTION       by a thread, which ends: cudaMemset, cudaMemcpy, cudaDeviceSynchronize or
//                       cudaLaunchKernel
//   hang FUNCTION       the same, but the call does not return
//   forks N             children, one after the other, which allocate memory, set it, free it and
//                       end
//   loads PATH N        N times: loads that copy of the runtime, allocates and frees by its
//                       functions, and unloads it
//
// Children, N of each. The first four are waited for:
//
//   exits CODE N        exit
//   dies SIGNAL N       send the signal to themselves
//   killed SIGNAL N     get the signal from this process
//   execs N             become this program again, under the name "execed", and exit with 0
//   crashes N           write to address 0
//   eats MIB            touches so much memory
//   idle N              wait: "idle PID" is printed of each
//   family              a child with a child of its own, which both wait: "idle PID" of each
//   caller              waits after a CUDA call: "idle PID"
//   many N              which share the memory of this process and wait: "many N" is printed when
//                       they are there
//   disperse            ends those
//   orphan              a child whose parent ends: "idle PID"; it lives for two minutes
//
// Sockets (sockets.h), on loopback:
//
//   connects N          of which both ends are closed at once
//   refused N           connects
//   ignored N           connects, which nobody answers; the sockets stay open
//   pairs N             connections, both ends of which it keeps; pairs6: the same over IPv6
//   portless N          connects for which there is no port, in a network of its own
//   far N               connections between two addresses of a network of its own
//   say BYTES           through each pair
//   serves N            prints "port P", takes N connections one by one, and reads all of each
//   calls PORT N BYTES  connections, through which it says so much
//   share BYTES         a child says so much through the same sockets, and ends
//   short_talk BYTES    a child has a pair of its own, says so much, and ends
//   lose N              each pair loses what it says until it was sent again N times
//   datagrams N         of a kilobyte, to a socket without room: prints "lost K"
//   info                prints "info SENT RECEIVED SEGMENTS RETRANSMITS" of the open sockets, as
//                       the kernel has it in TCP_INFO
//   rtts                prints "rtt PORT MICROSECONDS" of each pair
//   hang_up             closes them all
//
// Block devices (disks.h), past the page cache:
//
//   reads PATH BYTES N  from the device's beginning on, so many bytes each time
//   writes PATH BYTES N
//   readers PATH BYTES N CHILDREN   that read side by side, and are waited for
//   unwaited PATH BYTES N   a child reads and ends, and is not waited for
//
//   signal SIGNAL N     this process sends the signal to itself, N times, and ignores it

#include "lives/calls.h"
#include "lives/disks.h"
#include "lives/many.h"
#include "lives/sockets.h"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr unsigned kOrphanSeconds = 120;
constexpr std::size_t kMib = std::size_t{1} << 20U;

[[noreturn]] void wait_forever() {
    while (true) {
        pause();
    }
}

int number(const char *word) {
    return static_cast<int>(std::strtol(word, nullptr, 10));
}

[[noreturn]] void become_self(char **steps) {
    char path[4096] = "";  // the next program is named by it
    (void)!readlink("/proc/self/exe", path, sizeof(path) - 1);
    execv(path, steps);
    std::perror("exec");
    std::_Exit(1);
}

void burn(int milliseconds) {
    timespec now{};
    const auto spent = [&] {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
    };
    for (const auto until = spent() + milliseconds; spent() < until;) {
    }
}

void pin(std::size_t cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0) {
        std::perror("pin");
        std::exit(1);
    }
}

void touch(std::size_t bytes) {
    void *const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        std::_Exit(1);
    }
    std::memset(memory, 1, bytes);
}

void write_file(std::size_t bytes) {
    const int file = open("/var/tmp", O_TMPFILE | O_RDWR, 0600);
    const std::string block(std::size_t{1} << 20U, 'x');
    for (std::size_t written = 0; file >= 0 && written < bytes; written += block.size()) {
        if (write(file, block.data(), block.size()) < 0) {
            std::_Exit(1);
        }
    }
    close(file);
}

class Lives {
public:
    Lives() {
        sigemptyset(&wake_);
        sigaddset(&wake_, SIGUSR1);
        sigprocmask(SIG_BLOCK, &wake_, nullptr);
        const rlimit no_core{};
        setrlimit(RLIMIT_CORE, &no_core);
    }

    // How many of the words behind it the step took; -1: it is none.
    int run(const std::string &step, char **words, int count) {
        const auto children = [&](int times, const std::function<void()> &life) {
            for (int i = 0; i < times; i++) {
                (void)waitpid(start(life), nullptr, 0);
            }
        };
        if (step == "name" && count > 0) {
            prctl(PR_SET_NAME, words[0]);
            return 1;
        }
        if (step == "exit" && count > 0) {
            std::_Exit(number(words[0]));
        }
        if (step == "threads" && count > 0) {
            for (int i = number(words[0]); i > 0; i--) {
                std::thread(wait_forever).detach();
            }
            return 1;
        }
        if (step == "burn" && count > 0) {
            burn(number(words[0]));
            return 1;
        }
        if (step == "rest" && count > 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(number(words[0])));
            return 1;
        }
        if (step == "short" && count > 0) {
            for (int i = number(words[0]); i > 0; i--) {
                std::thread([] {
                    burn(5);
                    touch(kMib);
                }).join();
            }
            return 1;
        }
        if (step == "pin" && count > 0) {
            pin(static_cast<std::size_t>(number(words[0])));
            return 1;
        }
        if (step == "touch" && count > 0) {
            touch(static_cast<std::size_t>(number(words[0])) * kMib);
            return 1;
        }
        if (step == "write" && count > 0) {
            write_file(static_cast<std::size_t>(number(words[0])) * kMib);
            return 1;
        }
        if (step == "exits" && count > 1) {
            children(number(words[1]), [&] { std::_Exit(number(words[0])); });
            return 2;
        }
        if (step == "dies" && count > 1) {
            children(number(words[1]), [&] {
                std::signal(number(words[0]), SIG_DFL);
                kill(getpid(), number(words[0]));
                wait_forever();
            });
            return 2;
        }
        if (step == "killed" && count > 1) {
            for (int i = number(words[1]); i > 0; i--) {
                const pid_t child = start(wait_forever);
                kill(child, number(words[0]));
                (void)waitpid(child, nullptr, 0);
            }
            return 2;
        }
        if (step == "execs" && count > 0) {
            char self[] = "lives", name[] = "name", execed[] = "execed";
            char *steps[] = {self, name, execed, nullptr};
            children(number(words[0]), [&] { become_self(steps); });
            return 1;
        }
        if (step == "crashes" && count > 0) {
            children(number(words[0]), [] { *static_cast<volatile int *>(nullptr) = 1; });
            return 1;
        }
        if (step == "forks" && count > 0) {
            children(number(words[0]), [] { calls::use_memory(); });
            return 1;
        }
        if (step == "eats" && count > 0) {
            children(1, [&] {
                touch(static_cast<std::size_t>(number(words[0])) * kMib);
                std::_Exit(0);
            });
            return 1;
        }
        if (step == "idle" && count > 0) {
            for (int i = number(words[0]); i > 0; i--) {
                (void)start([] { say_idle(); });
            }
            return 1;
        }
        if (step == "many" && count > 0) {
            std::printf("many %d\n", many::start(number(words[0])));
            std::fflush(stdout);
            return 1;
        }
        if (step == "signal" && count > 1) {
            std::signal(number(words[0]), SIG_IGN);
            for (int i = number(words[1]); i > 0; i--) {
                kill(getpid(), number(words[0]));
            }
            return 2;
        }
        if (const int taken = call(step, words, count); taken >= 0) {
            return taken;
        }
        if (const int taken = sockets::run(step, words, count); taken >= 0) {
            return taken;
        }
        if (const int taken = disks::run(step, words, count); taken >= 0) {
            return taken;
        }
        return run(step, words);
    }

private:
    static int call(const std::string &step, char **words, int count) {
        if (step == "free") {
            calls::free_first();
            return 0;
        }
        if (count == 0) {
            return -1;
        }
        if (step == "allocate") {
            calls::allocate(std::strtoull(words[0], nullptr, 10));
        } else if (step == "pinned") {
            calls::pin(std::strtoull(words[0], nullptr, 10));
        } else if (step == "device") {
            calls::choose_device(number(words[0]));
        } else if (step == "call") {
            calls::in_thread(words[0]);
        } else if (step == "hang") {
            calls::hang(words[0]);
        } else if (step == "loads" && count > 1) {
            calls::load_and_unload(words[0], number(words[1]));
            return 2;
        } else {
            return -1;
        }
        return 1;
    }

    int run(const std::string &step, char **words) {
        if (step == "cuda") {
            calls::allocate(1);
        } else if (step == "family") {
            (void)start([] {
                (void)start([] { say_idle(); });
                say_idle();
            });
        } else if (step == "caller") {
            (void)start([] {
                calls::allocate(1);
                say_idle();
            });
        } else if (step == "orphan") {
            const pid_t parent = start([] {
                if (fork() == 0) {
                    alarm(kOrphanSeconds);
                    say_idle();
                }
                std::_Exit(0);
            });
            (void)waitpid(parent, nullptr, 0);
        } else if (step == "disperse") {
            many::end();
        } else if (step == "wait") {
            std::printf("waiting %d\n", ++waits_);
            std::fflush(stdout);
            int signal = 0;
            sigwait(&wake_, &signal);
        } else if (step == "exec") {
            char self[] = "lives";
            words[-1] = self;  // the steps that follow are its arguments
            become_self(words - 1);
        } else {
            return -1;
        }
        return 0;
    }

    [[noreturn]] static void say_idle() {
        std::printf("idle %d\n", static_cast<int>(getpid()));
        std::fflush(stdout);
        wait_forever();
    }

    static pid_t start(const std::function<void()> &life) {
        const pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            life();
            std::_Exit(0);
        }
        if (child < 0) {
            std::perror("fork");
            std::exit(1);
        }
        return child;
    }

    sigset_t wake_{};
    int waits_ = 0;
};

}  // namespace

int main(int argc, char **argv) {
    Lives lives;
    for (int at = 1; at < argc; ++at) {
        const int words = lives.run(argv[at], argv + at + 1, argc - at - 1);
        if (words < 0) {
            std::fprintf(stderr, "no such step: %s\n", argv[at]);
            return 2;
        }
        at += words;
    }
    std::_Exit(0);
}

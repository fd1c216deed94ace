#include "workload/options.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace demo {
namespace {

volatile std::sig_atomic_t g_stop = 0;
volatile std::sig_atomic_t g_enough = 0;

void request_stop(int /*signal*/) {
    g_stop = 1;
}

void end_work(int /*signal*/) {
    g_enough = 1;
}

[[noreturn]] void usage(const char *program) {
    std::fprintf(
        stderr,
        "usage: %s [OPTION]...\n"
        "  --threads N          threads that work at the same time (1)\n"
        "  --iterations N       iterations of each thread (1000, without --seconds)\n"
        "  --seconds S          work this long, or until SIGUSR1 (workload)\n"
        "  --seed X             same seed and one thread: same calls\n"
        "  --rate N             CUDA calls a second, of all threads together\n"
        "  --leak BYTES         allocate so much in each iteration, never free it\n"
        "  --hoard N            first allocate 256 bytes N times, never free them\n"
        "  --failures           also make calls that fail\n"
        "  --default-kind       also copy with cudaMemcpyDefault\n"
        "  --memory-kinds       also use managed, pinned and stream-ordered memory\n"
        "  --api API            make calls of the runtime, the driver, or both (runtime)\n"
        "  --everything         iterations of every function there is, in a random order\n"
        "  --graphs             with --everything: capture streams and run graphs, too; many of\n"
        "                       them are changed in ways that only the libraries can follow\n"
        "  --resets             with --everything and one thread: reset devices too\n"
        "  --known-arguments    launch kernels with 16 words that a test knows\n"
        "  --name COMM          name of the main thread\n"
        "  --wait-for-file PATH make no call before this file exists\n"
        "  --hold               free nothing at the end; wait for SIGTERM or the end of\n"
        "                       standard input\n",
        program);
    std::exit(2);
}

bool number(const char *text, double &out) {
    char *end = nullptr;
    out = std::strtod(text, &end);
    return end != text && *end == '\0' && out >= 0;
}

bool number(const char *text, std::uint64_t &out) {
    char *end = nullptr;
    out = std::strtoull(text, &end, 10);
    return end != text && *end == '\0' && *text != '-';
}

bool set_flag(Options &options, const std::string &flag) {
    if (flag == "--failures") {
        options.failures = true;
    } else if (flag == "--default-kind") {
        options.default_kind = true;
    } else if (flag == "--memory-kinds") {
        options.memory_kinds = true;
    } else if (flag == "--everything") {
        options.everything = true;
    } else if (flag == "--graphs") {
        options.graphs = true;
    } else if (flag == "--resets") {
        options.resets = true;
    } else if (flag == "--known-arguments") {
        options.known_arguments = true;
    } else if (flag == "--hold") {
        options.hold = true;
    } else {
        return false;
    }
    return true;
}

bool set_api(Options &options, const std::string &name) {
    if (name == "runtime") {
        options.api = Api::runtime;
    } else if (name == "driver") {
        options.api = Api::driver;
    } else if (name == "both") {
        options.api = Api::both;
    } else {
        return false;
    }
    return true;
}

bool set_value(Options &options, const std::string &flag, const char *value) {
    std::uint64_t count = 0;
    if (flag == "--seconds") {
        return number(value, options.seconds);
    }
    if (flag == "--rate") {
        return number(value, options.rate);
    }
    if (flag == "--wait-for-file") {
        options.wait_for_file = value;
        return true;
    }
    if (flag == "--api") {
        return set_api(options, value);
    }
    if (flag == "--name") {
        options.name = value;
        return true;
    }
    if (!number(value, count)) {
        return false;
    }
    if (flag == "--threads" && count > 0 && count <= 10000) {
        options.threads = static_cast<unsigned>(count);
    } else if (flag == "--iterations") {
        options.most_iterations = count;
    } else if (flag == "--seed") {
        options.seed = count;
    } else if (flag == "--leak") {
        options.leak = count;
    } else if (flag == "--hoard") {
        options.hoard = count;
    } else {
        return false;
    }
    return true;
}

bool stdin_can_close() {
    struct stat status{};
    return fstat(STDIN_FILENO, &status) == 0 &&
           (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(STDIN_FILENO) == 1);
}

bool stdin_closed(const pollfd &input) {
    char buffer[256];
    return input.revents != 0 && read(STDIN_FILENO, buffer, sizeof buffer) <= 0;
}

}  // namespace

Options parse_options(int argc, char **argv) {
    Options options;
    for (int at = 1; at < argc; ++at) {
        if (set_flag(options, argv[at])) {
            continue;
        }
        if (at + 1 == argc || !set_value(options, argv[at], argv[at + 1])) {
            usage(argv[0]);
        }
        ++at;
    }
    // Another thread's memory would go with the device.
    if (options.resets && options.threads > 1) {
        usage(argv[0]);
    }
    return options;
}

std::uint64_t iterations(const Options &options) {
    return options.most_iterations.value_or(options.seconds > 0 ? UINT64_MAX : 1000);
}

void wait_for_file(const std::string &path) {
    while (!path.empty() && access(path.c_str(), F_OK) != 0 && !stop_requested()) {
        usleep(1000);
    }
}

void watch_stop_signals() {
    struct sigaction action{};
    action.sa_handler = request_stop;
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
}

bool stop_requested() {
    return g_stop != 0;
}

void end_work_at(int signal) {
    std::signal(signal, end_work);
}

bool work_is_over() {
    return stop_requested() || g_enough != 0;
}

void hold() {
    std::puts("holding");
    std::fflush(stdout);
    // Blocked except while it waits, so that no signal falls between the check and the wait.
    sigset_t stops;
    sigset_t before;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    sigprocmask(SIG_BLOCK, &stops, &before);
    sigset_t while_waiting = before;
    sigdelset(&while_waiting, SIGTERM);
    sigdelset(&while_waiting, SIGINT);
    const nfds_t inputs = stdin_can_close() ? 1 : 0;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    while (!stop_requested()) {
        if (ppoll(&input, inputs, nullptr, &while_waiting) > 0 && stdin_closed(input)) {
            break;
        }
    }
    sigprocmask(SIG_SETMASK, &before, nullptr);
}

void prepare(const Options &options) {
    watch_stop_signals();
    if (!options.name.empty()) {
        prctl(PR_SET_NAME, options.name.c_str());
    }
    std::printf("ready %d\n", getpid());
    std::fflush(stdout);
    wait_for_file(options.wait_for_file);
}

}  // namespace demo

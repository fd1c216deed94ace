// tensors [--threads N] [--rounds N] [--early N] [--fork] [--name NAME] [--wait-for-file FILE]
//         [--until-stopped] [--time N]
// Allocates the early blocks, prints "waits" and waits for the file.
// Threads allocate and free blocks on two devices, also blocks of each other. Then main holds what
// two functions have allocated, keep_weights and keep_gradients, and prints, for each process,
//   truth PID DEVICE ALLOCATIONS BYTES FREES BYTES UNTRACKED OOMS ALLOCATED RESERVED HELD BYTES
//   site PID FUNCTION BYTES
//   holding
// and waits for SIGUSR1, and after "waiting" again: then it frees the weights and prints again.
// Counts are those since the file was there. UNTRACKED are frees of blocks from before (--early),
// and not in FREES. ALLOCATED and RESERVED are the allocator's own sums, HELD are blocks from
// after.
// --fork: a child frees a block of its parent, allocates three, and prints and waits, too.
// --until-stopped: allocates and frees until it is killed.
// --time: prints how long a pair of an allocation and a free takes, of so many pairs.
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocator.h"

namespace {

using standin::Allocator;
using standin::Block;

constexpr std::size_t KIB = 1024;

struct Options {
    int threads = 4;
    int rounds = 200;
    int early = 0;
    bool forks = false;
    bool until_stopped = false;
    int time = 0;
    std::string name{};
    std::string file{};
};

// Two devices, and the blocks that threads have left for any other to free.
struct Program {
    std::array<Allocator, 2> devices{Allocator{{c10::DeviceType::cuda, 0}, 64 * KIB *KIB},
                                     Allocator{{c10::DeviceType::cuda, 1}, 64 * KIB *KIB}};
    std::mutex mutex;
    std::vector<std::pair<std::size_t, Block>> left;  // with the number of the device
    std::vector<std::pair<std::size_t, Block>> early;
    std::vector<Block> weights;
    std::vector<Block> gradients;
    standin::Reports before;  // as of the start of the counting
    // Blocks from before, by device: those that were freed, and those that are held.
    struct Sum {
        std::uint64_t blocks = 0;
        std::uint64_t bytes = 0;
    };
    std::array<Sum, 2> untracked{};
    std::array<Sum, 2> held_early{};
};

[[gnu::noinline]] void keep_weights(Program &program) {
    for (std::size_t i = 0; i < 5; i++) {
        program.weights.push_back(program.devices[0].allocate(100 * KIB + i * KIB));
    }
    asm volatile("");  // or the last call is a jump
}

[[gnu::noinline]] void keep_gradients(Program &program) {
    for (std::size_t i = 0; i < 3; i++) {
        program.gradients.push_back(program.devices[1].allocate(10 * KIB));
    }
    asm volatile("");
}

void work(Program &program, int rounds, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<std::size_t, Block>> own;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 8; i++) {
            const std::size_t device = random() % program.devices.size();
            const Block block = program.devices[device].allocate(1 + random() % (64 * KIB));
            if (block.address != nullptr) {
                own.emplace_back(device, block);
            }
        }
        if (round % 50 == 0) {  // more than there is
            (void)program.devices[random() % 2].allocate(128 * KIB * KIB);
        }
        const std::lock_guard lock(program.mutex);
        std::swap(own, program.left);
        while (own.size() > 4) {
            program.devices[own.back().first].free(own.back().second);
            own.pop_back();
        }
    }
    const std::lock_guard lock(program.mutex);
    program.left.insert(program.left.end(), own.begin(), own.end());
}

void allocate_early(Program &program, int count) {
    for (int i = 0; i < count; i++) {
        const std::size_t device = static_cast<std::size_t>(i) % 2;
        program.early.emplace_back(device, program.devices[device].allocate(3 * KIB));
        program.held_early[device].blocks++;
        program.held_early[device].bytes += program.early.back().second.bytes;
    }
    program.before = standin::reports();
}

void free_early(Program &program, std::size_t count) {
    for (std::size_t i = 0; i < count && !program.early.empty(); i++) {
        const auto [device, block] = program.early.back();
        program.early.pop_back();
        program.devices[device].free(block);
        program.untracked[device].blocks++;
        program.untracked[device].bytes += block.bytes;
        program.held_early[device].blocks--;
        program.held_early[device].bytes -= block.bytes;
    }
}

std::uint64_t sum_of(const std::vector<Block> &blocks) {
    std::uint64_t sum = 0;
    for (const Block &block : blocks) {
        sum += block.bytes;
    }
    return sum;
}

void print(const Program &program) {
    for (const auto &[device, now] : standin::reports()) {
        const auto found = program.before.find(device);
        const standin::Reported then =
            found == program.before.end() ? standin::Reported{} : found->second;
        const auto number = static_cast<std::size_t>(device.second);
        const Program::Sum early = program.held_early[number];
        const Program::Sum untracked = program.untracked[number];
        const std::uint64_t held = now.allocations - now.frees - early.blocks;
        const std::uint64_t held_bytes = now.allocated_bytes - now.freed_bytes - early.bytes;
        std::printf("truth %d cuda:%d", ::getpid(), device.second);
        for (const std::uint64_t value :
             {now.allocations - then.allocations, now.allocated_bytes - then.allocated_bytes,
              now.frees - then.frees - untracked.blocks,
              now.freed_bytes - then.freed_bytes - untracked.bytes, untracked.blocks,
              now.out_of_memory - then.out_of_memory, now.allocated, now.reserved, held,
              held_bytes}) {
            std::printf(" %llu", static_cast<unsigned long long>(value));
        }
        std::printf("\n");
    }
    for (const auto &[site, blocks] : {std::pair("keep_weights", &program.weights),
                                       std::pair("keep_gradients", &program.gradients)}) {
        std::printf("site %d %s %llu\n", ::getpid(), site,
                    static_cast<unsigned long long>(sum_of(*blocks)));
    }
    std::fflush(stdout);
}

void say(const char *what) {
    std::printf("%s\n", what);
    std::fflush(stdout);
}

void wait_for(const std::string &file) {
    while (!file.empty() && ::access(file.c_str(), F_OK) != 0) {
        ::usleep(10'000);
    }
}

void wait_for_signal() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    int number = 0;
    (void)sigwait(&set, &number);
}

void print_and_hold(Program &program) {
    print(program);
    say("holding");
    wait_for_signal();
    for (const Block &block : std::exchange(program.weights, {})) {
        program.devices[0].free(block);
    }
    print(program);
    say("waiting");
    wait_for_signal();
}

// The child has its parent's allocator, and its blocks, of which nobody saw the allocation in it.
void be_child(Program &program) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    program.before = standin::reports();
    program.untracked = {};
    for (std::size_t device = 0; device < 2; device++) {
        const auto &now =
            program.before[{static_cast<int>(c10::DeviceType::cuda), static_cast<int>(device)}];
        program.held_early[device] = {now.allocations - now.frees,
                                      now.allocated_bytes - now.freed_bytes};
    }
    program.early = {{0, program.weights.back()}};
    program.weights.clear();
    program.gradients.clear();
    free_early(program, 1);
    keep_gradients(program);
    print_and_hold(program);
}

void time_pairs(Program &program, int pairs) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < pairs; i++) {
        program.devices[0].free(program.devices[0].allocate(KIB));
    }
    const auto took = std::chrono::steady_clock::now() - began;
    std::printf("%.1f ns\n", static_cast<double>(std::chrono::nanoseconds(took).count()) / pairs);
    std::fflush(stdout);
}

Options read(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; i++) {
        const std::string key = argv[i];
        if (key == "--fork") {
            options.forks = true;
            continue;
        }
        if (key == "--until-stopped") {
            options.until_stopped = true;
            continue;
        }
        if (i + 1 == argc) {
            std::fprintf(stderr, "%s: what?\n", argv[i]);
            std::exit(2);
        }
        const std::string value = argv[++i];
        if (key == "--name") {
            options.name = value;
        } else if (key == "--wait-for-file") {
            options.file = value;
        } else if (key == "--threads") {
            options.threads = std::stoi(value);
        } else if (key == "--rounds") {
            options.rounds = std::stoi(value);
        } else if (key == "--early") {
            options.early = std::stoi(value);
        } else if (key == "--time") {
            options.time = std::stoi(value);
        } else {
            std::fprintf(stderr, "%s: no such option\n", key.c_str());
            std::exit(2);
        }
    }
    return options;
}

void run_threads(Program &program, const Options &options) {
    std::vector<std::thread> threads;
    for (int i = 0; i < options.threads; i++) {
        threads.emplace_back(work, std::ref(program), options.rounds, static_cast<unsigned>(i));
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

}  // namespace

int main(int argc, char **argv) {
    const Options options = read(argc, argv);
    if (!options.name.empty()) {
        ::prctl(PR_SET_NAME, options.name.c_str());
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    static Program program;
    allocate_early(program, options.early);
    std::puts("waits");
    std::fflush(stdout);
    wait_for(options.file);
    if (options.time > 0) {
        time_pairs(program, options.time);
        return 0;
    }
    while (options.until_stopped) {
        run_threads(program, {.threads = 1, .rounds = 51});
        ::usleep(100'000);
    }
    free_early(program, static_cast<std::size_t>(options.early) / 2);
    run_threads(program, options);
    keep_weights(program);
    keep_gradients(program);
    const pid_t child = options.forks ? ::fork() : -1;
    if (child == 0) {
        be_child(program);
        return 0;
    }
    print_and_hold(program);
    if (child > 0) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
    return 0;
}

#include "driver/truth_writer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace standin {
namespace {

using truth::FileLayout;

FileLayout g_unread;  // where the counts go without STANDIN_TRUTH_DIR
FileLayout *g_file = nullptr;
std::mutex g_opening;

[[noreturn]] void fail(const char *what, const char *path) {
    std::fprintf(stderr, "stand-in driver: %s %s: %s\n", what, path, std::strerror(errno));
    std::abort();  // a test must not pass without its truth
}

// Exclusive: an image that was exec'ed, or a reused pid, finds the earlier file and leaves it be.
int create_file(const char *directory, char (&path)[4096], std::uint32_t &generation) {
    for (generation = 0; generation < 100000; ++generation) {
        if (generation == 0) {
            std::snprintf(path, sizeof path, "%s/%d.truth", directory, getpid());
        } else {
            std::snprintf(path, sizeof path, "%s/%d.%u.truth", directory, getpid(), generation);
        }
        const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd >= 0) {
            return fd;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    fail("cannot create", path);
}

void read_main_comm(FileLayout &file) {
    const int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    const ssize_t size = read(fd, file.comm.data(), file.comm.size() - 1);
    close(fd);
    if (size > 0 && file.comm[static_cast<std::size_t>(size - 1)] == '\n') {
        file.comm[static_cast<std::size_t>(size - 1)] = '\0';
    }
}

FileLayout *open_file(const char *directory) {
    char path[4096];
    std::uint32_t generation = 0;
    const int fd = create_file(directory, path, generation);
    if (ftruncate(fd, sizeof(FileLayout)) != 0) {
        fail("cannot size", path);
    }
    void *memory = mmap(nullptr, sizeof(FileLayout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        fail("cannot map", path);
    }
    close(fd);
    auto *file = static_cast<FileLayout *>(memory);
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    file->version = truth::kVersion;
    file->pid = getpid();
    file->generation = generation;
    file->created_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
                       static_cast<std::uint64_t>(now.tv_nsec);
    read_main_comm(*file);
    __atomic_store_n(&file->magic, truth::kMagic, __ATOMIC_RELEASE);
    return file;
}

// Opened at the first count, so that a process that only links the library leaves no file, and the
// file carries the name that the program gave itself at its start.
FileLayout &file() {
    FileLayout *opened = __atomic_load_n(&g_file, __ATOMIC_ACQUIRE);
    if (opened != nullptr) [[likely]] {
        return *opened;
    }
    const std::lock_guard lock(g_opening);
    if (g_file == nullptr) {
        const int saved_errno = errno;
        const char *directory = std::getenv("STANDIN_TRUTH_DIR");
        opened = directory != nullptr && *directory != '\0' ? open_file(directory) : &g_unread;
        __atomic_store_n(&g_file, opened, __ATOMIC_RELEASE);
        errno = saved_errno;
    }
    return *g_file;
}

void add(std::uint64_t &counter, std::uint64_t amount = 1) {
    __atomic_fetch_add(&counter, amount, __ATOMIC_RELAXED);
}

void subtract(std::uint64_t &counter, std::uint64_t amount = 1) {
    __atomic_fetch_sub(&counter, amount, __ATOMIC_RELAXED);
}

template <typename Enum>
constexpr std::size_t index(Enum value) {
    return static_cast<std::size_t>(value);
}

bool same_launch(const truth::Launches &entry, const truth::Launches &wanted) {
    return entry.grid == wanted.grid && entry.block == wanted.block &&
           entry.device == wanted.device && entry.by == wanted.by && entry.name == wanted.name;
}

std::size_t hash_launch(const truth::Launches &wanted) {
    std::uint64_t hash = 14695981039346656037U;
    const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 1099511628211U; };
    for (std::size_t axis = 0; axis < 3; ++axis) {
        mix(wanted.grid[axis]);
        mix(wanted.block[axis]);
    }
    mix(wanted.device);
    mix(wanted.by);
    for (const char letter : wanted.name) {
        mix(static_cast<unsigned char>(letter));
    }
    return static_cast<std::size_t>(hash ^ (hash >> 32U));
}

// A code that the layout has no place for would be lost.
std::size_t code_index(int error) {
    const auto *found = std::find(truth::kErrorCodes.begin(), truth::kErrorCodes.end(), error);
    if (found == truth::kErrorCodes.end()) {
        std::fprintf(stderr, "stand-in driver: the truth has no place for error %d\n", error);
        std::abort();
    }
    return static_cast<std::size_t>(found - truth::kErrorCodes.begin());
}

truth::Memory &memory_of(Device device, truth::MemoryKind kind) {
    return file().memory[static_cast<std::size_t>(device)][index(kind)];
}

void add_call(truth::Copies &to, std::uint64_t bytes) {
    add(to.calls);
    add(to.bytes, bytes);
}

// True when `entry` is now, or already was, the entry for `wanted`.
bool claim(truth::Launches &entry, const truth::Launches &wanted) {
    auto seen = static_cast<std::uint32_t>(truth::EntryState::empty);
    if (__atomic_compare_exchange_n(&entry.state, &seen,
                                    static_cast<std::uint32_t>(truth::EntryState::being_written),
                                    false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        entry.grid = wanted.grid;
        entry.block = wanted.block;
        entry.device = wanted.device;
        entry.by = wanted.by;
        entry.name = wanted.name;
        __atomic_store_n(&entry.state, static_cast<std::uint32_t>(truth::EntryState::ready),
                         __ATOMIC_RELEASE);
        return true;
    }
    while (seen != static_cast<std::uint32_t>(truth::EntryState::ready)) {
        seen = __atomic_load_n(&entry.state, __ATOMIC_ACQUIRE);
    }
    return same_launch(entry, wanted);
}

truth::Held &held_on(Device device) {
    return file().held[static_cast<std::size_t>(device)];
}

void hold(Device device, truth::MemoryKind kind, std::uint64_t bytes) {
    if (kind == truth::MemoryKind::pinned_host) {
        return;
    }
    truth::Held &held = held_on(device);
    const std::uint64_t now = __atomic_add_fetch(&held.bytes, bytes, __ATOMIC_RELAXED);
    std::uint64_t peak = __atomic_load_n(&held.peak_bytes, __ATOMIC_RELAXED);
    while (now > peak && !__atomic_compare_exchange_n(&held.peak_bytes, &peak, now, false,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void let_go(Device device, truth::MemoryKind kind, std::uint64_t bytes) {
    if (kind != truth::MemoryKind::pinned_host) {
        subtract(held_on(device).bytes, bytes);
    }
}

}  // namespace

void count_entry(truth::Function function, bool outermost) {
    add(outermost ? file().entered[index(function)] : file().nested_entered);
}

void count_result(truth::Function function, bool outermost, int error) {
    add(outermost ? file().results[index(function)][code_index(error)] : file().nested_calls);
}

void count_return_without_entry() {
    add(file().returns_without_entry);
}

void count_allocation(Device device, truth::MemoryKind kind, std::uint64_t bytes) {
    hold(device, kind, bytes);
    truth::Memory &memory = memory_of(device, kind);
    add(memory.allocations);
    add(memory.allocated_bytes, bytes);
    add(memory.outstanding_allocations);
    add(memory.outstanding_bytes, bytes);
}

void count_free(Device device, truth::MemoryKind kind, std::uint64_t bytes) {
    let_go(device, kind, bytes);
    truth::Memory &memory = memory_of(device, kind);
    add(memory.frees);
    add(memory.freed_bytes, bytes);
    subtract(memory.outstanding_allocations);
    subtract(memory.outstanding_bytes, bytes);
}

void count_untracked_free(Device device, truth::MemoryKind kind) {
    add(memory_of(device, kind).untracked_frees);
}

void count_freed_by_reset(Device device, truth::MemoryKind kind, std::uint64_t bytes) {
    let_go(device, kind, bytes);
    truth::Memory &memory = memory_of(device, kind);
    add(memory.freed_by_reset);
    add(memory.freed_by_reset_bytes, bytes);
    subtract(memory.outstanding_allocations);
    subtract(memory.outstanding_bytes, bytes);
}

void count_empty_allocation(Device device, truth::MemoryKind kind) {
    add(memory_of(device, kind).empty_allocations);
}

void count_empty_free() {
    add(file().empty_frees);
}

void count_copy(Device device, truth::CopyKind kind, truth::CopyMode mode, std::uint64_t bytes) {
    add_call(file().copies[static_cast<std::size_t>(device)][index(kind)][index(mode)], bytes);
}

void count_set(Device device, truth::CopyMode mode, std::uint64_t bytes) {
    add_call(file().memsets[static_cast<std::size_t>(device)][index(mode)], bytes);
}

void count_captured(Device device, truth::Captured what) {
    add(file().captured[static_cast<std::size_t>(device)][index(what)]);
}

void count_launch(Device device, truth::LaunchedBy by, const char *kernel, Dim3 grid, Dim3 block) {
    truth::Launches wanted{};
    wanted.grid = {grid.x, grid.y, grid.z};
    wanted.block = {block.x, block.y, block.z};
    wanted.device = static_cast<std::uint32_t>(device);
    wanted.by = static_cast<std::uint32_t>(by);
    std::strncpy(wanted.name.data(), kernel, wanted.name.size() - 1);
    FileLayout &counts = file();
    add(by == truth::LaunchedBy::graph ? counts.launches_by_graphs : counts.launches);
    const std::size_t start = hash_launch(wanted);
    for (std::size_t step = 0; step < truth::kLaunchEntries; ++step) {
        truth::Launches &entry = counts.launch_table[(start + step) % truth::kLaunchEntries];
        if (claim(entry, wanted)) {
            add(entry.count);
            return;
        }
    }
    add(counts.launches_unlisted);
}

void count_graph_launch(Device device) {
    add(file().graph_launches[static_cast<std::size_t>(device)]);
}

void count_synchronization(Device device) {
    add(file().synchronizations[static_cast<std::size_t>(device)]);
}

void count_elapsed(float milliseconds) {
    // A year of milliseconds: more than the stand-in's events can be apart.
    if (!std::isfinite(milliseconds) || milliseconds < 0 || milliseconds > 3.2e10F) {
        add(file().elapsed_invalid);
        return;
    }
    add(file().elapsed_times);
    add(file().elapsed_ns, static_cast<std::uint64_t>(std::llround(double{milliseconds} * 1e6)));
}

void lock_truth_for_fork() {
    g_opening.lock();
}

void unlock_truth_after_fork() {
    g_opening.unlock();
}

void forget_truth_of_parent() {
    FileLayout *parents = g_file;
    g_file = nullptr;
    if (parents != nullptr && parents != &g_unread) {
        munmap(parents, sizeof(FileLayout));
    }
}

}  // namespace standin

#include "exporter/probes/host_time/conclusion.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "exporter/probes/host_time/calls.h"

namespace gpusnoop::probes {

namespace {

struct Words {
    std::string_view key;
    std::string_view sentence;  // with the share of the time and the state
    std::string_view advice;
};

// In the order of HostLimit.
constexpr std::array<Words, host_limits> all_words = {{
    {"gpu", "The GPU is the limit: the launching thread waited for it {0} of the time.",
     "The host keeps up. Make the GPU's work faster: kernels, precision, the size of batches."},
    {"launches", "Launches are the limit: the launching thread was inside of them {0} of the time.",
     "If the GPU is busy all the time, its queue is full, and the GPU is behind. Else the kernels "
     "are "
     "many and small: join them, or use CUDA graphs."},
    {"copies",
     "Copies are the limit: the launching thread was inside of asynchronous ones {0} of the time.",
     "A copy of memory that is not pinned returns only when it is done: pin the memory "
     "(cudaMallocHost, pin_memory=True), and make fewer and larger copies."},
    {"memory_calls",
     "Allocations are the limit: the launching thread was inside of cudaMalloc, cudaFree and the "
     "like {0} of the time.",
     "Allocate before the loop, or from a pool (cudaMallocAsync, the caching allocator of "
     "PyTorch): "
     "cudaFree waits for the GPU, too. /api/v1/allocations says where in the program."},
    {"cuda_calls",
     "Other CUDA calls are the limit: the launching thread was inside of them {0} of the time.",
     "They create streams and events, load modules, or ask for something: do that before the loop. "
     "gpusnoop_exporter trace cuda shows them."},
    {"host",
     "The host's own work is the limit: the launching thread ran outside of CUDA calls {0} of the "
     "time.",
     "A CPU profile of that thread (perf, py-spy) says what it computes. Give that to other "
     "threads "
     "or processes, compile it, or launch whole steps as CUDA graphs."},
    {"data",
     "Data is the limit: the launching thread waited for other processes, mostly in the state {1}, "
     "{0} of the time.",
     "Mostly a data loader is late: give it more workers, or let it read ahead, and look at what "
     "its "
     "workers wait for (role=\"worker\"). A server without requests looks the same."},
    {"lock",
     "Another thread is the limit: the launching thread waited for threads of its own process {0} "
     "of the time.",
     "One of them holds a lock, such as Python's GIL, or hands work over late, such as the thread "
     "of a data loader that pins memory. A CPU profile of all threads (perf, py-spy) says which."},
    {"file", "Files are the limit: the launching thread waited for them {0} of the time.",
     "Let other threads or data loaders read them ahead, or put them on faster storage. "
     "gpusnoop_host_io_bytes_total says how much is read."},
    {"page_fault",
     "Memory is the limit: the launching thread waited in page faults {0} of the time.",
     "Either memory is short, and parts of the program are swapped out "
     "(gpusnoop_host_memory_bytes{kind=\"swap\"}): give it more. Or files that it has mapped are "
     "cold: read them before."},
    {"address_space",
     "The address space is the limit: the launching thread was blocked in mmap, munmap and the "
     "like "
     "{0} of the time.",
     "Its threads map, unmap or touch much memory at a time: keep buffers instead of freeing "
     "them."},
    {"sleep", "The program's own sleep is the limit: the launching thread slept {0} of the time.",
     "Look for sleeps and for loops that try again in the code that launches."},
    {"child",
     "Other programs are the limit: the launching thread waited for processes to end {0} of the "
     "time.",
     "Start programs and wait for them in another thread, or not in the loop."},
    {"device",
     "A device is the limit: the launching thread was blocked in calls on one {0} of the time.",
     "/api/v1/in_flight shows calls that hang, with the functions of the kernel that they wait "
     "in."},
    {"stopped", "The launching thread was stopped {0} of the time, by a signal or by a debugger.",
     "kill -CONT lets it go on."},
    {"other",
     "Something else is the limit: the launching thread was blocked outside of CUDA calls {0} of "
     "the time.",
     "/proc/PID/task/TID/stack says what the kernel waits for."},
    {"throttled",
     "The CPU limit of its cgroup is the limit: the launching thread was throttled {0} of the "
     "time.",
     "Raise the CPU limit of the container or the job, or run fewer threads in it."},
    {"no_cpu",
     "CPUs are the limit: the launching thread was ready, and had no CPU, {0} of the time.",
     "Others use them: move neighbours away, give the job CPUs of its own, or run fewer threads "
     "than there are CPUs."},
    {"stolen",
     "Interrupts or the hypervisor are the limit: they had the launching thread's CPU {0} of the "
     "time.",
     "Move interrupts to other CPUs (/proc/interrupts), or give the virtual machine CPUs of its "
     "own."},
}};

const Words &words_of(HostLimit limit) {
    return all_words[static_cast<std::size_t>(limit)];
}

HostLimit limit_of_host(std::uint32_t state) {
    switch (state) {
        case HOST_STATE_running:
            return HostLimit::host;
        case HOST_STATE_pipe:
        case HOST_STATE_socket:
        case HOST_STATE_poll:
            return HostLimit::data;
        case HOST_STATE_futex:
            return HostLimit::lock;
        case HOST_STATE_file:
        case HOST_STATE_io_uring:
            return HostLimit::file;
        case HOST_STATE_page_fault:
            return HostLimit::page_fault;
        case HOST_STATE_memory:
            return HostLimit::address_space;
        case HOST_STATE_sleep:
            return HostLimit::sleep;
        case HOST_STATE_child:
            return HostLimit::child;
        case HOST_STATE_device:
            return HostLimit::device;
        case HOST_STATE_stopped:
            return HostLimit::stopped;
        default:
            return HostLimit::other;
    }
}

// What the threads of a process wait for each other.
std::uint64_t idle_of(const HostCells &cells, std::uint64_t elapsed_ns) {
    const std::uint64_t wall = cells.wall_ns();
    return wall > elapsed_ns ? std::min(wall - elapsed_ns, cells.ns[HOST_host][HOST_STATE_futex])
                             : 0;
}

// The wait for the GPU is the limit if it is half of the time, or twice as long as anything else:
// the host need not be behind all the time to be what one should look at.
HostLimit largest_of(const std::array<std::uint64_t, host_limits> &spent, std::uint64_t wall) {
    const auto largest = std::max_element(spent.begin() + 1, spent.end());
    const std::uint64_t waited = spent.front();
    return waited >= wall - waited || waited >= 2 * *largest
               ? HostLimit::gpu
               : static_cast<HostLimit>(largest - spent.begin());
}

}  // namespace

HostLimit limit_of(std::uint32_t phase, std::uint32_t state) {
    switch (state) {
        case HOST_STATE_throttled:
            return HostLimit::throttled;
        case HOST_STATE_runnable:
            return HostLimit::no_cpu;
        case HOST_STATE_stolen:
            return HostLimit::stolen;
        default:
            break;
    }
    switch (phase) {
        case HOST_host:
            return limit_of_host(state);
        case HOST_launch:
            return HostLimit::launches;
        case HOST_copy:
            return HostLimit::copies;
        case HOST_wait:
            return HostLimit::gpu;
        case HOST_memory:
            return HostLimit::memory_calls;
        default:
            return HostLimit::cuda_calls;
    }
}

std::string_view key_of(HostLimit limit) {
    return words_of(limit).key;
}

std::optional<Conclusion> conclude(const HostCells &cells, std::uint64_t elapsed_ns) {
    const std::uint64_t idle = idle_of(cells, elapsed_ns);
    const std::uint64_t wall = cells.wall_ns() - idle;
    if (wall == 0) {
        return std::nullopt;
    }
    std::array<std::uint64_t, host_limits> spent{};
    std::array<std::array<std::uint64_t, HOST_STATE_COUNT>, host_limits> in_state{};
    for (std::uint32_t phase = 0; phase < HOST_PHASE_COUNT; phase++) {
        for (std::uint32_t state = 0; state < HOST_STATE_COUNT; state++) {
            const auto limit = static_cast<std::size_t>(limit_of(phase, state));
            spent[limit] += cells.ns[phase][state];
            in_state[limit][state] += cells.ns[phase][state];
        }
    }
    spent[static_cast<std::size_t>(HostLimit::lock)] -= idle;
    const HostLimit limit = largest_of(spent, wall);
    const auto &states = in_state[static_cast<std::size_t>(limit)];
    return Conclusion{
        .limit = limit,
        .share =
            static_cast<double>(spent[static_cast<std::size_t>(limit)]) / static_cast<double>(wall),
        .state = static_cast<std::uint32_t>(std::ranges::max_element(states) - states.begin()),
        .idle_ns = idle};
}

std::string sentence_of(const Conclusion &conclusion) {
    constexpr double percent = 100;
    return fmt::format(fmt::runtime(words_of(conclusion.limit).sentence),
                       fmt::format("{:.0f} %", conclusion.share * percent),
                       host_state_name(conclusion.state));
}

std::string_view advice_of(HostLimit limit) {
    return words_of(limit).advice;
}

}  // namespace gpusnoop::probes

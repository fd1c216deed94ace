// What is said of each limit.
#include <spdlog/fmt/fmt.h>

#include <array>
#include <cstddef>

#include "exporter/base/seconds.h"
#include "exporter/base/text/quantity_text.h"
#include "exporter/probes/host_time/calls.h"
#include "exporter/probes/host_time/gaps/conclusion.h"

namespace gpusnoop::probes {

namespace {

struct Words {
    std::string_view key;
    // With the share of the time, the state, and the call that hangs and its age.
    std::string_view sentence;
    std::string_view advice;
};

// In the order of HostLimit.
constexpr std::array<Words, host_limits> all_words = {{
    {"gpu", "The GPU is the limit: the launching thread waited for it {0} of the time.",
     "The host keeps up. Speed up the GPU's work: kernels, precision, batch size."},
    {"launches",
     "Launches are the limit: the launching thread was in launch calls {0} of the time.",
     "If the GPU is always busy, its queue is full, and the GPU is the bottleneck. Otherwise the "
     "kernels are many and small: fuse them, or use CUDA graphs."},
    {"copies",
     "Copies are the limit: the launching thread was in asynchronous copy calls {0} of the time.",
     "An asynchronous copy of memory that is not pinned blocks until it is done: pin the memory "
     "(cudaMallocHost, pin_memory=True), and make fewer, larger copies."},
    {"memory_calls",
     "Allocations are the limit: the launching thread was in cudaMalloc, cudaFree and similar "
     "calls {0} of the time.",
     "Allocate before the loop, or from a pool (cudaMallocAsync, PyTorch's caching allocator). "
     "cudaFree also waits for the GPU. /api/v1/allocations has the call sites."},
    {"cuda_calls",
     "Other CUDA calls are the limit: the launching thread was in them {0} of the time.",
     "They create streams and events, load modules, or query something: do that before the loop. "
     "gpusnoop_exporter trace cuda shows them."},
    {"host", "Host code is the limit: the launching thread ran outside CUDA calls {0} of the time.",
     "A CPU profile of that thread (gpusnoop_exporter profile, py-spy) shows what it computes. "
     "Move that to other threads or processes, compile it, or launch whole steps as CUDA graphs."},
    {"data",
     "Data is the limit: the launching thread waited for other processes {0} of the time, mostly "
     "in the state {1}.",
     "Usually a data loader is late: give it more workers, or let it prefetch, and check what its "
     "workers wait for (role=\"worker\"). A server with few requests looks the same."},
    {"lock",
     "Another thread is the limit: the launching thread waited for threads of its own process {0} "
     "of the time.",
     "One of them holds a lock, such as Python's GIL, or hands over work late, such as a data "
     "loader's thread that pins memory. A CPU profile of all threads (gpusnoop_exporter profile, "
     "py-spy) shows which."},
    {"file", "Files are the limit: the launching thread waited for them {0} of the time.",
     "Let other threads or data loaders read them ahead, or put them on faster storage. "
     "gpusnoop_host_io_bytes_total shows how much is read."},
    {"page_fault",
     "Memory is the limit: the launching thread waited in page faults {0} of the time.",
     "Either memory is short and parts of the program are swapped out "
     "(gpusnoop_host_memory_bytes{kind=\"swap\"}): give it more. Or its mapped files are not in "
     "memory: read them ahead."},
    {"address_space",
     "The address space is the limit: the launching thread was blocked in mmap, munmap and similar "
     "calls {0} of the time.",
     "The process maps, unmaps or touches a lot of memory at a time: keep buffers instead of "
     "freeing them."},
    {"sleep", "The program spends its time sleeping: the launching thread slept {0} of the time.",
     "Look for sleeps and retry loops in the code that launches."},
    {"child",
     "Other programs are the limit: the launching thread waited for processes to end {0} of the "
     "time.",
     "Start programs and wait for them in another thread, or outside the loop."},
    {"device",
     "A device is the limit: the launching thread was blocked in calls on a device file {0} of the "
     "time.",
     "/api/v1/in_flight shows hanging calls, with the kernel functions that they wait in."},
    {"stopped", "The launching thread was stopped {0} of the time, by a signal or by a debugger.",
     "Resume it with kill -CONT."},
    {"other",
     "Something else is the limit: the launching thread was blocked outside CUDA calls {0} of the "
     "time.",
     "/proc/PID/task/TID/stack shows what it waits for in the kernel."},
    {"throttled", "The program is throttled by the CPU limit of its cgroup {0} of the time.",
     "Raise the CPU limit of the container or the job, or run fewer threads in it."},
    {"no_cpu",
     "CPUs are the limit: the launching thread was ready to run but had no CPU {0} of the time.",
     "Other threads use them: move neighbors away, give the job CPUs of its own, or run fewer "
     "threads than there are CPUs."},
    {"stolen",
     "Interrupts or the hypervisor are the limit: they used the launching thread's CPU {0} of the "
     "time.",
     "Move interrupts to other CPUs (/proc/interrupts), or give the virtual machine CPUs of its "
     "own."},
    {"idle",
     "The program is idle: it launched nothing, and the launching thread waited {0} of the time, "
     "mostly in the state {1}.",
     "A notebook or a server that waits for input looks like this. If the program should be "
     "working, its stacks (py-spy dump, /proc/PID/task/TID/stack) show what it waits for."},
    {"hangs",
     "The program hangs: the launching thread has been in {2} for {3}, and the program has "
     "launched nothing since.",
     "Run gpusnoop_exporter trace --in-flight: it shows the call with its stack, and the NCCL "
     "operations that wait for other ranks. If the GPU is busy (nvidia-smi), one piece of its work "
     "takes this long."},
}};

const Words &words_of(HostLimit limit) {
    return all_words[static_cast<std::size_t>(limit)];
}

std::string percent_text(double share) {
    constexpr double percent = 100;
    return fmt::format("{:.0f} %", share * percent);
}

// The gaps are much shorter than what limits the program: a program that does not wait for the GPU
// has none, however long the GPU has nothing to do.
bool is_starved_unseen(const Conclusion &conclusion) {
    return conclusion.limit != HostLimit::gpu && 2 * conclusion.starved < conclusion.share;
}

}  // namespace

std::string_view key_of(HostLimit limit) {
    return words_of(limit).key;
}

std::string sentence_of(const Conclusion &conclusion) {
    std::string sentence =
        fmt::format(fmt::runtime(words_of(conclusion.limit).sentence),
                    percent_text(conclusion.share), host_state_name(conclusion.state),
                    conclusion.call.function, age_text(in_seconds(conclusion.call.age_ns)));
    constexpr double least = 0.005;
    if (conclusion.starved >= least) {
        sentence += fmt::format(" The host kept {} waiting at least {} of the time",
                                conclusion.starved_all_streams ? "the GPU" : "the GPU or a stream",
                                percent_text(conclusion.starved));
        sentence += conclusion.starved_state
                        ? fmt::format(", mostly in the state {}",
                                      host_gap_state_name(*conclusion.starved_state))
                        : "";
        sentence +=
            is_starved_unseen(conclusion) ? "; other idle time of the GPU is not seen." : ".";
    }
    return sentence;
}

std::string_view advice_of(HostLimit limit) {
    return words_of(limit).advice;
}

}  // namespace gpusnoop::probes

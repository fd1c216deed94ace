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
     "A CPU profile of that thread (gpusnoop_exporter profile, py-spy) says what it computes. Give "
     "that to other "
     "threads "
     "or processes, compile it, or launch whole steps as CUDA graphs."},
    {"data",
     "Data is the limit: the launching thread waited for other processes, mostly in the state {1}, "
     "{0} of the time.",
     "Mostly a data loader is late: give it more workers, or let it read ahead, and look at what "
     "its "
     "workers wait for (role=\"worker\"). A server with few requests looks the same."},
    {"lock",
     "Another thread is the limit: the launching thread waited for threads of its own process {0} "
     "of the time.",
     "One of them holds a lock, such as Python's GIL, or hands work over late, such as the thread "
     "of a data loader that pins memory. A CPU profile of all threads (gpusnoop_exporter profile, "
     "py-spy) says which."},
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
    {"idle",
     "It is idle: nothing was launched, and the launching thread waited, mostly in the state {1}, "
     "{0} of the time.",
     "A notebook or a server that waits for input looks like this. If it should work, what it "
     "waits for is late or hangs: its stacks (py-spy dump, /proc/PID/task/TID/stack) say what that "
     "is."},
    {"hangs",
     "It hangs: the launching thread has been inside {2} for {3}, and the program has launched "
     "nothing in that time.",
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
        sentence += is_starved_unseen(conclusion)
                        ? "; idle time of the GPU shows only after a wait for it."
                        : ".";
    }
    return sentence;
}

std::string_view advice_of(HostLimit limit) {
    return words_of(limit).advice;
}

}  // namespace gpusnoop::probes

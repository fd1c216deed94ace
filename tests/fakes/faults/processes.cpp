// A call during which the process becomes two, or another one.

#include "faults/scenario.h"

#include <cstdlib>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace faults {
namespace {

pid_t g_child = -1;
void *g_inherited = nullptr;

bool child_succeeded() {
    int status = 0;
    return g_child > 0 && waitpid(g_child, &status, 0) == g_child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

void fork_here() {
    g_child = fork();
}

// The child never made the call that it returns from; then it makes its own: two allocations that
// it frees, one that it does not, and a free of what its parent had allocated.
bool fork_in_call() {
    void *memory = nullptr;
    void *kept = nullptr;
    bool passed = cudaMalloc(&g_inherited, 4096) == standin::kSuccess;
    on_next("cudaMalloc", fork_here);
    passed = cudaMalloc(&memory, 64) == standin::kSuccess && passed;
    if (g_child == 0) {
        passed = allocate_and_free(100) && allocate_and_free(200) && passed;
        passed = cudaMalloc(&kept, 300) == standin::kSuccess && passed;
        passed = cudaFree(g_inherited) == standin::kSuccess && passed;
        _exit(passed ? 0 : 1);
    }
    passed = child_succeeded() && passed;
    passed = cudaFree(memory) == standin::kSuccess && passed;
    return cudaFree(g_inherited) == standin::kSuccess && passed;
}

// The child makes calls of its own before it returns from its parent's.
void fork_and_call() {
    g_child = fork();
    if (g_child == 0 && !allocate_and_free(500)) {
        _exit(1);
    }
}

bool fork_and_call_in_call() {
    on_next("cudaMalloc", fork_and_call);
    void *memory = nullptr;
    const bool passed = cudaMalloc(&memory, 64) == standin::kSuccess;
    if (g_child == 0) {
        _exit(passed && allocate_and_free(600) ? 0 : 1);
    }
    return passed && cudaFree(memory) == standin::kSuccess && child_succeeded();
}

void vfork_here() {
    g_child = vfork();
    if (g_child == 0) {
        execute_self("after_exec_silent");
        _exit(1);
    }
}

bool vfork_exec() {
    on_next("cudaMalloc", vfork_here);
    return allocate_and_free(64) && child_succeeded();
}

bool after_exec_silent() {
    _exit(allocate_and_free(96) && allocate_and_free(96) ? 0 : 1);
}

void become_another() {
    execute_self("after_exec");
    std::abort();
}

// The next image says "after_exec ok".
bool exec_in_call() {
    void *lost = nullptr;
    const bool passed = cudaMalloc(&lost, 1024) == standin::kSuccess;
    on_next("cudaMalloc", become_another);
    allocate_and_free(64);
    return passed && false;
}

// The thread takes over the process's id, and the main thread ends in its own call.
bool exec_in_thread() {
    on_next("cudaMalloc", become_another);
    std::thread([] { allocate_and_free(64); }).join();
    return false;
}

bool after_exec() {
    return allocate_and_free(96);
}

}  // namespace

std::vector<Scenario> process_scenarios() {
    return {
        {"fork", fork_in_call},
        {"fork_and_call", fork_and_call_in_call},
        {"vfork_exec", vfork_exec},
        {"exec", exec_in_call},
        {"exec_in_thread", exec_in_thread},
        {"after_exec", after_exec},
        {"after_exec_silent", after_exec_silent},
    };
}

}  // namespace faults

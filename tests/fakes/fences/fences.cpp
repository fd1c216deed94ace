// fences [--look] [--fences N] [--waits N] [--crowd N]: DMA fences of the module vgem, whose number
// is known. Without the module it ends with 3, and with --look it ends otherwise with 0. Else it
// sleeps until it gets SIGUSR1, and then does all this:
//
// - makes N fences, all of them there at one time, and signals them; the kernel does it for those
//   that have been there for ten seconds;
// - N times, waits for a fence in a thread, and signals it;
// - once, has a wait interrupted by a signal handler, and signals the fence behind it;
// - once, has a child killed that waits;
// - has a crowd of N threads wait, some hundreds at a time for one fence.
//
// At the end it prints "fences F waits W", what it made in all, and ends. Every fence has been
// signaled then.

#include <drm/drm.h>
#include <drm/drm_mode.h>
#include <drm/vgem_drm.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fences/cards.h"

using fences::give_up;
using fences::moment;
using fences::open_card;

namespace {

int g_card = -1;
int g_fences = 0;
int g_waits = 0;
volatile sig_atomic_t g_signals = 0;

void on_signal(int /*number*/) {
    g_signals = g_signals + 1;
}

// A buffer with a fence that is not signaled; the fence is there as long as the buffer.
struct Buffer {
    std::uint32_t handle = 0;
    std::uint32_t fence = 0;

    Buffer() {
        drm_mode_create_dumb create{};
        create.width = create.height = 16;
        create.bpp = 32;
        if (::ioctl(g_card, DRM_IOCTL_MODE_CREATE_DUMB, &create) != 0) {
            give_up("DRM_IOCTL_MODE_CREATE_DUMB");
        }
        handle = create.handle;
        drm_vgem_fence_attach attach{};
        attach.handle = handle;
        attach.flags = VGEM_FENCE_WRITE;
        if (::ioctl(g_card, DRM_IOCTL_VGEM_FENCE_ATTACH, &attach) != 0) {
            give_up("DRM_IOCTL_VGEM_FENCE_ATTACH");
        }
        fence = attach.out_fence;
        g_fences++;
    }
    ~Buffer() {
        drm_gem_close close{};
        close.handle = handle;
        ::ioctl(g_card, DRM_IOCTL_GEM_CLOSE, &close);
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    void signal() const {
        if (!signal_or_expired()) {
            errno = ETIMEDOUT;
            give_up("DRM_IOCTL_VGEM_FENCE_SIGNAL");
        }
    }

    // False: the kernel has signaled it already, ten seconds after it was made.
    [[nodiscard]] bool signal_or_expired() const {
        drm_vgem_fence_signal signal{};
        signal.fence = fence;
        if (::ioctl(g_card, DRM_IOCTL_VGEM_FENCE_SIGNAL, &signal) == 0) {
            return true;
        }
        if (errno != ETIMEDOUT) {
            give_up("DRM_IOCTL_VGEM_FENCE_SIGNAL");
        }
        return false;
    }

    // Waits for the fence. False: the wait was interrupted.
    [[nodiscard]] bool wait(std::atomic<pid_t> &waiting) const {
        drm_prime_handle prime{};
        prime.handle = handle;
        prime.flags = DRM_CLOEXEC | DRM_RDWR;
        if (::ioctl(g_card, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime) != 0) {
            give_up("DRM_IOCTL_PRIME_HANDLE_TO_FD");
        }
        dma_buf_sync sync{};
        sync.flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW;
        waiting = static_cast<pid_t>(::syscall(SYS_gettid));
        const int result = ::ioctl(prime.fd, DMA_BUF_IOCTL_SYNC, &sync);
        const int error = errno;
        ::close(prime.fd);
        if (result != 0 && error != EINTR) {
            errno = error;
            give_up("DMA_BUF_IOCTL_SYNC");
        }
        return result == 0;
    }
};

// Until the thread sleeps in the wait: the kernel says where it sleeps.
void await_sleep(const std::atomic<pid_t> &thread) {
    for (int i = 0; i < 4'000; i++) {
        std::ifstream file("/proc/" + std::to_string(thread) + "/wchan");
        const std::string where{std::istreambuf_iterator<char>(file), {}};
        if (where.starts_with("dma_fence")) {
            return;
        }
        moment();
    }
    errno = ETIMEDOUT;
    give_up("a thread does not come to wait for its fence");
}

void wait_in_thread(bool interrupt) {
    const Buffer buffer;
    std::atomic<pid_t> waiting = 0;
    bool whole = false;
    std::thread waiter([&] { whole = buffer.wait(waiting); });
    await_sleep(waiting);
    g_waits++;
    if (interrupt) {
        ::pthread_kill(waiter.native_handle(), SIGUSR2);
    } else {
        buffer.signal();
    }
    waiter.join();
    if (whole == interrupt) {
        give_up("a wait did not end as it should");
    }
    if (interrupt) {
        buffer.signal();
    }
}

void wait_in_killed_child() {
    const Buffer buffer;
    auto *const waiting = static_cast<std::atomic<pid_t> *>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (waiting == MAP_FAILED) {
        give_up("mmap");
    }
    const pid_t child = ::fork();
    if (child == 0) {
        (void)buffer.wait(*waiting);
        ::_exit(1);
    }
    await_sleep(*waiting);
    g_waits++;
    ::kill(child, SIGKILL);
    int status = 0;
    if (::waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) {
        give_up("the child was not killed");
    }
    buffer.signal();
}

void make_fences(int count) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (int i = 0; i < count; i++) {
        buffers.push_back(std::make_unique<Buffer>());
    }
    for (const auto &buffer : buffers) {
        (void)buffer->signal_or_expired();
    }
}

void wait_in_crowd(int threads) {
    constexpr int at_a_time = 250;  // they all sleep before the fence's ten seconds are over
    for (int left = threads; left > 0; left -= at_a_time) {
        const int count = std::min(left, at_a_time);
        const Buffer buffer;
        std::vector<std::atomic<pid_t>> waiting(count);
        std::vector<std::jthread> waiters;
        for (std::atomic<pid_t> &one : waiting) {
            waiters.emplace_back([&] {
                if (!buffer.wait(one)) {
                    give_up("a wait was interrupted");
                }
            });
        }
        for (const std::atomic<pid_t> &one : waiting) {
            await_sleep(one);
        }
        g_waits += count;
        buffer.signal();
    }
}

}  // namespace

int main(int argc, char **argv) {
    int fences = 0;
    int waits = 0;
    int crowd = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        int &number = name == "--fences" ? fences : name == "--waits" ? waits : crowd;
        number = std::atoi(argv[i + 1]);
    }
    g_card = open_card("vgem");
    if (g_card < 0) {
        std::fprintf(stderr, "no vgem\n");
        return 3;
    }
    struct sigaction action{};
    action.sa_handler = on_signal;
    ::sigaction(SIGUSR1, &action, nullptr);
    ::sigaction(SIGUSR2, &action, nullptr);
    if (argc == 2 && std::strcmp(argv[1], "--look") == 0) {
        return 0;
    }
    std::puts("waiting");
    std::fflush(stdout);
    while (g_signals == 0) {
        moment();
    }
    make_fences(fences);
    for (int i = 0; i < waits; i++) {
        wait_in_thread(false);
    }
    if (waits > 0) {
        wait_in_thread(true);
        wait_in_killed_child();
    }
    wait_in_crowd(crowd);
    std::printf("fences %d waits %d\n", g_fences, g_waits);
    return 0;
}

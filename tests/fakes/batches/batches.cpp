// batches NAME GO FORM STEP...: waits for the file GO, then makes these calls in the FORM of a
// library and version (runtime12, runtime13, driver12, driver13), and holds:
//
//   N         copies N times in one batch, in all four directions; the i-th copy has i % 100 bytes
//   3d:N      the same with shapes, of 1 + i % 7 bytes in each row of two layers of three rows
//   failing   three copies, of which the second is from nowhere
//   captured  one copy on a stream that captures
//   legacy    one copy on the legacy stream, which is refused
//   gone      copies whose sizes can no longer be read when the call returns; only by the driver
//   sync      waits for the stream of the batches
//   say:TEXT  prints it, and waits for SIGUSR1

#include "cudart/cudart.h"
#include "driver/driver_api.h"
#include "workload/options.h"

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

using standin::BatchedCopy3D;
using standin::CopyAttributes;
using standin::DevicePointer;
using standin::Stream;

constexpr std::size_t kRoom = 4096;

[[noreturn]] void fail(const std::string &what) {
    std::fprintf(stderr, "batches: %s\n", what.c_str());
    std::exit(1);
}

void check(int error, int expected, const char *what) {
    if (error != expected) {
        fail(std::string(what) + " gives " + std::to_string(error) + " instead of " +
             std::to_string(expected));
    }
}

void say(const char *text) {
    std::printf("%s\n", text);
    std::fflush(stdout);
}

// The same for all forms: runtimes and driver have the same types by the ABI.
using Flat12 = int (*)(DevicePointer *, DevicePointer *, std::size_t *, std::size_t,
                       CopyAttributes *, std::size_t *, std::size_t, std::size_t *, Stream);
using Flat13 = int (*)(DevicePointer *, DevicePointer *, std::size_t *, std::size_t,
                       CopyAttributes *, std::size_t *, std::size_t, Stream);
using Deep12 = int (*)(std::size_t, BatchedCopy3D *, std::size_t *, unsigned long long, Stream);
using Deep13 = int (*)(std::size_t, BatchedCopy3D *, unsigned long long, Stream);

struct Form {
    Flat12 flat12 = nullptr;
    Flat13 flat13 = nullptr;
    Deep12 deep12 = nullptr;
    Deep13 deep13 = nullptr;
};

template <typename Function>
Function find(void *library, const char *name) {
    void *const address = dlsym(library, name);
    if (address == nullptr) {
        fail(std::string("no ") + name);
    }
    return reinterpret_cast<Function>(address);
}

Form form_of(const std::string &name) {
    const bool is_old = name.ends_with("12");
    const bool is_driver = name.starts_with("driver");
    void *const library = dlopen(is_driver ? "libcuda.so.1"
                                 : is_old  ? "libcudart.so.12"
                                           : "libcudart.so.13",
                                 RTLD_NOW);
    if (library == nullptr) {
        fail(dlerror());
    }
    const char *const flat = !is_driver ? "cudaMemcpyBatchAsync"
                             : is_old   ? "cuMemcpyBatchAsync"
                                        : "cuMemcpyBatchAsync_v2";
    const char *const deep = !is_driver ? "cudaMemcpy3DBatchAsync"
                             : is_old   ? "cuMemcpy3DBatchAsync"
                                        : "cuMemcpy3DBatchAsync_v2";
    Form form;
    if (is_old) {
        form.flat12 = find<Flat12>(library, flat);
        form.deep12 = find<Deep12>(library, deep);
    } else {
        form.flat13 = find<Flat13>(library, flat);
        form.deep13 = find<Deep13>(library, deep);
    }
    return form;
}

class Batches {
public:
    explicit Batches(const Form &form) : form_(form) {
        check(cudaMalloc(&device_, kRoom), 0, "cudaMalloc");
        check(cudaStreamCreateWithFlags(&stream_, standin::kNonBlockingStream), 0, "a stream");
    }

    void run(const std::string &step) {
        if (step == "failing") {
            fail_second();
        } else if (step == "captured") {
            capture();
        } else if (step == "legacy") {
            check(flat(1, nullptr), standin::kInvalidValue, "a batch on the legacy stream");
        } else if (step == "gone") {
            copy_in_vain();
        } else if (step == "sync") {
            check(cudaStreamSynchronize(stream_), 0, "cudaStreamSynchronize");
        } else if (step.starts_with("say:")) {
            wait_after(step.substr(4));
        } else if (step.starts_with("3d:")) {
            check(deep(std::stoul(step.substr(3))), 0, "a batch of shapes");
        } else {
            check(flat(std::stoul(step), stream_), 0, "a batch");
        }
    }

private:
    DevicePointer end(bool on_device) {
        return reinterpret_cast<DevicePointer>(on_device ? device_ : host_.data());
    }

    int call_flat(std::vector<DevicePointer> &to, std::vector<DevicePointer> &from,
                  std::size_t *bytes, Stream stream, std::size_t *failed) {
        CopyAttributes attributes;
        std::size_t start = 0;
        const std::size_t with = to.empty() ? 0 : 1;
        return form_.flat12 != nullptr ? form_.flat12(to.data(), from.data(), bytes, to.size(),
                                                      &attributes, &start, with, failed, stream)
                                       : form_.flat13(to.data(), from.data(), bytes, to.size(),
                                                      &attributes, &start, with, stream);
    }

    int flat(std::size_t count, Stream stream) {
        std::vector<DevicePointer> to;
        std::vector<DevicePointer> from;
        std::vector<std::size_t> bytes;
        // Other directions in each record of 64 copies.
        for (std::size_t i = 0; i < count; ++i) {
            to.push_back(end(i % 3 == 0));
            from.push_back(end(i % 5 < 2));
            bytes.push_back(i % 100);
        }
        std::size_t failed = 0;
        return call_flat(to, from, bytes.data(), stream, &failed);
    }

    int deep(std::size_t count) {
        std::vector<BatchedCopy3D> copies(count);
        for (std::size_t i = 0; i < count; ++i) {
            copies[i].to.of.memory.pointer = end(i % 3 == 0);
            copies[i].from.of.memory.pointer = end(i % 5 < 2);
            copies[i].extent = {1 + i % 7, 3, 2};
        }
        std::size_t failed = 0;
        return form_.deep12 != nullptr ? form_.deep12(count, copies.data(), &failed, 0, stream_)
                                       : form_.deep13(count, copies.data(), 0, stream_);
    }

    void fail_second() {
        std::vector<DevicePointer> to(3, end(true));
        std::vector<DevicePointer> from = {end(false), 0, end(false)};
        std::vector<std::size_t> bytes(3, 10);
        std::size_t failed = 77;
        check(call_flat(to, from, bytes.data(), stream_, &failed), standin::kInvalidValue,
              "a copy from nowhere");
        if (form_.flat12 != nullptr && failed != 1) {
            fail("another copy failed");
        }
    }

    static void take_away(const char *, void *page) {
        mprotect(page, static_cast<std::size_t>(getpagesize()), PROT_NONE);
    }

    void copy_in_vain() {
        const auto bytes = static_cast<std::size_t>(getpagesize());
        void *const page =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) {
            fail("no memory");
        }
        auto *const sizes = static_cast<std::size_t *>(page);
        std::vector<DevicePointer> to(2, end(true));
        std::vector<DevicePointer> from(2, end(false));
        sizes[0] = sizes[1] = 8;
        standin_set_hook(take_away, page);
        check(call_flat(to, from, sizes, stream_, nullptr), 0, "a batch without sizes");
        standin_set_hook(nullptr, nullptr);
        munmap(page, bytes);
    }

    // It fails, and the capture goes on.
    void capture() {
        standin::Graph graph = nullptr;
        check(cudaStreamBeginCapture(stream_, standin::kCaptureGlobal), 0, "a capture");
        check(flat(1, stream_), standin::kCaptureUnsupported, "a batch that is captured");
        check(cudaStreamEndCapture(stream_, &graph), 0, "its end");
    }

    static void wait_after(const std::string &text) {
        sigset_t signals;
        int signal = 0;
        sigemptyset(&signals);
        sigaddset(&signals, SIGUSR1);
        sigprocmask(SIG_BLOCK, &signals, nullptr);
        say(text.c_str());
        sigwait(&signals, &signal);
    }

    Form form_;
    void *device_ = nullptr;
    Stream stream_ = nullptr;
    std::array<char, kRoom> host_{};
};

}  // namespace

int main(int argc, char **argv) {
    if (argc < 4) {
        fail("usage: batches NAME GO FORM STEP...");
    }
    prctl(PR_SET_NAME, argv[1]);
    demo::watch_stop_signals();
    standin::driver();
    const Form form = form_of(argv[3]);
    say("ready");
    demo::wait_for_file(argv[2]);
    Batches batches(form);
    for (int at = 4; at < argc; ++at) {
        batches.run(argv[at]);
    }
    say("holding");
    demo::hold();
    return 0;
}

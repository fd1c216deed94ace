// Libraries that are used in unusual ways.
#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// A child of the test that runs `work` in its own process, and is killed with this.
class Child {
public:
    template <typename Work>
    explicit Child(Work work) : pid_(::fork()) {
        if (pid_ == 0) {
            work();
            ::_exit(0);
        }
    }
    ~Child() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
    }
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;

private:
    pid_t pid_;
};

}  // namespace

TEST_CASE("a library is found in a process whose first thread has ended", "[kernel]") {
    require_bpf();
    const Exporter exporter;
    const TemporaryDirectory directory;
    const auto library = directory / "libcudart.so.12";
    std::filesystem::copy_file(standin("12/libcudart.so.12"), library);
    const Child child([&] {
        std::thread([&] {
            ::usleep(200'000);
            ::dlopen(library.c_str(), RTLD_NOW);
            ::pause();
        }).detach();
        ::syscall(SYS_exit, 0);  // this thread alone
    });
    exporter.wait_until_attached_to(library);
}

TEST_CASE("a library that is overwritten in place is detached from, and attached to again",
          "[kernel][core]") {
    require_bpf();
    const Exporter exporter;
    const TemporaryDirectory directory;
    const auto library = directory / "libcudart.so.12";
    const Process::Environment use_it = {{"LD_LIBRARY_PATH", directory.path().string()}};
    std::filesystem::copy_file(standin("12/libcudart.so.12"), library);
    (void)hold(exporter, library);
    // The same inode with other code in the probed places.
    std::string bytes = read_file(standin("13/libcudart.so.13"));
    std::filesystem::resize_file(library, 0);
    write_file(library, bytes);
    {
        // Whatever becomes of a program with the wrong library: the exporter looks again.
        Process user({standin("workload"), "--iterations", "0", "--hold"}, use_it);
        eventually("the exporter to notice: " + exporter.log(), [&] {
            return exporter.log().find("overwritten while it was traced") != std::string::npos;
        });
    }
    CHECK(exporter.scrape().sum("gpusnoop_probe_up") == 1);
}

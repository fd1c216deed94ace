// A process that keeps its mappings locked, and maps libraries of others: the kernel would wait for
// it to set a breakpoint in them, and nobody could fork meanwhile. So all programs are started
// before it locks anything.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/child.h"
#include "tests/e2e/hostile/hostile.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// A copy of the runtime, and another name of the same file, which nothing looks for.
struct LockedLibrary {
    TemporaryDirectory directory;
    std::filesystem::path library = directory / "libcudart.so.12";
    std::filesystem::path other_name = directory / "data";

    LockedLibrary() {
        std::filesystem::copy_file(standin("12/libcudart.so.12"), library);
        std::filesystem::create_hard_link(library, other_name);
    }
};

// A program on this copy of the runtime, which begins when `go` is called.
class WaitingProgram {
public:
    WaitingProgram(const std::filesystem::path &library, const std::string &comm)
        : child_([&]() -> int {
              e2e::wait_for_file(directory_ / "go");
              ::setenv("LD_LIBRARY_PATH", library.parent_path().c_str(), 1);
              ::setenv("STANDIN_TRUTH_DIR", directory_.path().c_str(), 1);
              const std::string program = standin("workload");
              ::execl(program.c_str(), program.c_str(), "--iterations", "200", "--name",
                      comm.c_str(), "--hold", nullptr);
              return 1;
          }) {}
    void go() const { write_file(directory_ / "go", ""); }
    [[nodiscard]] truth::TruthSnapshot truth() const {
        return truth::sum(truth::read_truth(directory_.path()));
    }

private:
    TemporaryDirectory directory_;
    e2e::Child child_;
};

// Maps a file so many times.
class MapsOften {
public:
    explicit MapsOften(const std::filesystem::path &file, int times = 1000)
        : child_([&, times]() -> int {
              const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
              for (int i = 0; i < times; i++) {
                  if (::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED) {
                      return 1;
                  }
              }
              write_file(directory_ / "mapped", "");
              e2e::pause_for_ever();
          }) {
        eventually("the file to be mapped",
                   [&] { return std::filesystem::exists(directory_ / "mapped"); });
    }

    [[nodiscard]] pid_t pid() const { return child_.pid(); }

private:
    TemporaryDirectory directory_;
    e2e::Child child_;
};

}  // namespace

TEST_CASE("a library with too many mappings is attached to later, and who has them is named",
          "[e2e]") {
    require_bpf();
    const LockedLibrary crowded;
    const LockedLibrary free;
    constexpr int many = 60'000;
    auto one = std::make_unique<MapsOften>(crowded.library, many);
    const MapsOften other(crowded.library, many);
    const Exporter exporter("discovery: {rescan_interval: 1s}\n");
    const e2e::MapsAsCode user(crowded.library);
    exporter.wait_for_log("maps it tens of thousands of times");
    const auto is_named = [&](pid_t pid) {
        return exporter.log().find("process " + std::to_string(pid) +
                                   " maps it tens of thousands of times") != std::string::npos;
    };
    CHECK((is_named(one->pid()) || is_named(other.pid())));
    const e2e::MapsAsCode user_of_free(free.library);
    exporter.wait_until_attached_to(free.library);
    CHECK(exporter.times_attached_to(crowded.library) == 0);
    one.reset();
    exporter.wait_until_attached_to(crowded.library);
}

TEST_CASE("a library that a process with locked mappings maps delays no other library", "[e2e]") {
    require_bpf();
    const LockedLibrary locked;
    const LockedLibrary free;
    Exporter exporter("discovery: {rescan_interval: 1s}\n");
    const WaitingProgram waits(locked.library, "of_locked");
    const WaitingProgram counted(free.library, "of_free");
    // So the lock is not among the first that the kernel is asked for.
    const MapsOften often(locked.library);
    e2e::LocksItsMappings locker(std::vector<std::filesystem::path>{locked.other_name});
    locker.lock();
    waits.go();
    exporter.wait_for_log("maps it and keeps its mappings locked");
    counted.go();
    exporter.wait_until_attached_to(free.library);
    eventually("the program to be counted", [&] {
        const auto truth = counted.truth();
        return truth.launches > 0 &&
               exporter.scrape().sum("gpusnoop_cuda_kernel_launches_total",
                                     {{"comm", "of_free"}}) == number(truth.launches);
    });
    CHECK(exporter.times_attached_to(locked.library) == 0);
    CHECK(exporter.log().find("process " + std::to_string(locker.pid()) +
                              " maps it and keeps its mappings locked") != std::string::npos);
    CHECK(e2e::Child([] { return 0; }).wait() == 0);  // programs can be started
    SECTION("it is attached to when the process unlocks them") {
        locker.unlock();
        exporter.wait_until_attached_to(locked.library);
    }
    SECTION("the exporter ends meanwhile") {
        exporter.process().signal(SIGTERM);
        CHECK(exporter.process().wait() == 0);
    }
}

TEST_CASE("a library that only a process with locked mappings maps is not detached from", "[e2e]") {
    require_bpf();
    const LockedLibrary locked;
    const Exporter exporter("discovery: {rescan_interval: 1s, keep: 0s}\n");
    auto user = std::make_unique<e2e::MapsAsCode>(locked.library);
    exporter.wait_until_attached_to(locked.library);
    auto locker = std::make_unique<e2e::LocksItsMappings>(
        std::vector<std::filesystem::path>{locked.other_name});
    locker->lock();
    user.reset();
    ::sleep(5);  // several scans
    const std::string detached = "detached: no process uses it";
    CHECK(exporter.times_said_of(locked.library, detached) == 0);
    CHECK(e2e::Child([] { return 0; }).wait() == 0);  // programs can be started
    // It maps the library under a name that nothing looks for, so it does not use it.
    locker->unlock();
    eventually("the library to be detached from",
               [&] { return exporter.times_said_of(locked.library, detached) == 1; });
}

TEST_CASE("libraries of a user whose processes keep their mappings locked are found, and stay",
          "[e2e]") {
    require_bpf();
    const LockedLibrary library;
    // Of all of them, a scan of the processes one by one has no time left for the user's others.
    std::array<e2e::LocksItsMappings, 4> lockers;
    const auto lock = [&] {
        for (const auto &locker : lockers) {
            locker.lock();
        }
    };
    const TemporaryDirectory directory;
    const e2e::Child user([&]() -> int {
        e2e::map_as_nobody({library.library}, directory / "mapped");
        e2e::pause_for_ever();
    });
    eventually("the library to be mapped",
               [&] { return std::filesystem::exists(directory / "mapped"); });
    SECTION("while the exporter runs") {
        const Exporter exporter("discovery: {rescan_interval: 1s, keep: 0s}\n");
        exporter.wait_until_attached_to(library.library);
        lock();
        exporter.wait_for_log("keep their mappings locked");
        ::sleep(5);  // several scans
        CHECK(exporter.times_said_of(library.library, "detached: no process uses it") == 0);
    }
    SECTION("before the exporter starts") {
        lock();
        const Exporter exporter("discovery: {rescan_interval: 1h}\n");
        exporter.wait_until_attached_to(library.library);
    }
}

// A user who does all at once that keeps the exporter busy or waiting, beside a victim whose
// numbers must be exact. For a minute; GPUSNOOP_ATTACK_SECONDS is another time.
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/child.h"
#include "tests/e2e/hostile/hostile.h"
#include "tests/harness/calls_truth.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

using AttackClock = std::chrono::steady_clock;

std::chrono::seconds attack_time() {
    const char *const seconds = std::getenv("GPUSNOOP_ATTACK_SECONDS");
    return std::chrono::seconds(seconds != nullptr ? std::stoi(seconds) : 60);
}

// Libraries of nobody's that take long to read: one process maps some of them after the other.
class MapsSparseLibraries {
public:
    MapsSparseLibraries() {
        std::vector<std::filesystem::path> libraries;
        for (int i = 0; i < 24; i++) {
            const auto place = directory_ / std::to_string(i);
            std::filesystem::create_directory(place);
            e2e::make_sparse_library(place / "libcudart.so.12", 9'900'000);
            libraries.push_back(place / "libcudart.so.12");
        }
        user_ = std::make_unique<e2e::Child>([this, libraries]() -> int {
            e2e::map_as_nobody(libraries, directory_ / "mapped");
            e2e::pause_for_ever();
        });
    }

private:
    TemporaryDirectory directory_;
    std::unique_ptr<e2e::Child> user_;
};

// Reports blocks that PyTorch's allocator does not have, each at a new address.
class InventsTensors {
public:
    InventsTensors()
        : user_([] {
              struct Device {
                  std::int8_t type = 1;  // CUDA
                  std::int8_t index = 0;
              };
              void *const library = ::dlopen(standin("torch/2/libc10.so").c_str(), RTLD_NOW);
              auto *const report =
                  e2e::function_of<void(void *, std::int64_t, std::size_t, std::size_t, Device)>(
                      library, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
              if (::setresuid(65534, 65534, 65534) != 0) {
                  return 1;
              }
              ::prctl(PR_SET_NAME, "inventor");
              for (std::uintptr_t address = 512;; address += 512) {
                  report(reinterpret_cast<void *>(address), 512, address, address, {});
                  if (address % (512 * 1024) == 0) {
                      ::usleep(10'000);
                  }
              }
          }) {}

private:
    e2e::Child user_;
};

// What a program's tensors hold is counted to the last byte.
void check_tensors(const Exporter &exporter, const std::string &comm) {
    const Process victim({standin("torch/2/tensors"), "--name", comm});
    victim.wait_for_output("holding");
    std::istringstream lines(victim.output());
    double held = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("truth ")) {
            held += std::stod(line.substr(line.rfind(' ')));
        }
    }
    REQUIRE(held > 0);
    (void)exporter.wait_for("gpusnoop_torch_memory_outstanding_bytes", {{"comm", comm}}, held);
}

// A program on a new copy of the runtime: how long it takes until that is attached to. Then it is
// counted to the last call, under its names.
std::chrono::duration<double> check_victim(const Exporter &exporter, const std::string &comm) {
    const TemporaryDirectory directory;
    const auto library = directory / "libcudart.so.12";
    std::filesystem::copy_file(standin("12/libcudart.so.12"), library);
    // An earlier copy, which is gone, can have had its inode's number.
    const std::size_t before = exporter.times_attached_to(library);
    const auto began = AttackClock::now();
    const e2e::MapsAsCode mapped(library);
    eventually("the exporter to attach to the copy: " + exporter.log(),
               [&] { return exporter.times_attached_to(library) > before; });
    const std::chrono::duration<double> took = AttackClock::now() - began;
    const Process victim({standin("workload"), "--iterations", "200", "--name", comm, "--hold"},
                         {{"LD_LIBRARY_PATH", directory.path().string()},
                          {"STANDIN_TRUTH_DIR", directory.path().string()}});
    victim.wait_for_output("holding");
    const auto truth = truth::sum(truth::read_truth(directory.path()));
    REQUIRE(truth.launches > 0);
    (void)exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}},
                            static_cast<double>(truth.launches));
    const auto unnamed = [&] {
        return exporter.scrape().sum("gpusnoop_cuda_kernel_launches_total",
                                     {{"comm", comm}, {"kernel", "unknown"}});
    };
    eventually("its kernels to have names", [&] { return unnamed() == 0; });
    check_counters(exporter.scrape(), truth, comm);
    return took;
}

}  // namespace

TEST_CASE("a program with millions of symbols and thousands of kernels leaves others their names",
          "[e2e]") {
    require_bpf();
    // Before the exporter, which would see what it registers: of each, a name is looked up.
    const e2e::LaunchesAtAnyAddress addresses;
    Exporter exporter;
    eventually("kernels at thousands of addresses", [&] {
        return exporter.scrape().sum("gpusnoop_cuda_kernel_launches_total",
                                     {{"comm", "addresses"}}) > 1000;
    });
    (void)check_victim(exporter, "victim");
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
}

TEST_CASE("attacks of a user at the same time do not harm others", "[.soak]") {
    require_bpf();
    std::array<e2e::LocksItsMappings, 3> lockers;
    const e2e::HasSlowMap map;
    const e2e::HasPythons pythons;
    const e2e::LaunchesAtAnyAddress addresses;
    const e2e::MapsAllTheTime maps;
    // Each victim leaves its series behind.
    Exporter exporter(
        "series: {budget: 200000}\ndiscovery: {rescan_interval: 1s}\nsyscall: {enabled: "
        "true}\nin_flight: {min_age: 1ms}\n"
        "torch: {enabled: true}\n"
        "targets: {comms: [locker, stacks, pythons]}\n" +
        own_groups("auto") +
        "    calls: {libraries: [\"libcalls.so*\"], functions: [calls_callback]}\n");
    const InventsTensors inventor;
    exporter.wait_until_attached_to(standin("torch/2/libc10.so"));
    const e2e::MapsAsCode mapped(standin("libcalls.so.1"));
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    const Process calls({"setpriv", "--reuid=65534", standin("hangs"), "--threads", "2000",
                         "--depth", "40", "--name", "many"});
    calls.wait_for_output("hanging");
    std::vector<double> attached;
    double slowest_page = 0;
    const auto until = AttackClock::now() + attack_time();
    std::unique_ptr<MapsSparseLibraries> sparse;
    std::future<HttpAnswer> profile;
    for (std::size_t round = 0; AttackClock::now() < until; round++) {
        if (round < lockers.size()) {
            lockers[round].lock();
        }
        sparse.reset();
        sparse = std::make_unique<MapsSparseLibraries>();
        profile = std::async(std::launch::async, [port = exporter.port()] {
            return http(port, "/api/v1/profile?duration=1s&format=folded");
        });
        attached.push_back(check_victim(exporter, "victim_" + std::to_string(round)).count());
        if (attached.back() > 0.5) {
            WARN("victim_" << round << " was attached to after " << attached.back() << " s");
        }
        check_tensors(exporter, "tensors_" + std::to_string(round));
        const auto began = AttackClock::now();
        (void)exporter.scrape();
        slowest_page = std::max(slowest_page,
                                std::chrono::duration<double>(AttackClock::now() - began).count());
        const HttpAnswer in_flight = http(exporter.port(), "/api/v1/in_flight");
        INFO(in_flight.body.substr(0, 400));
        CHECK(in_flight.status == 200);
        const HttpAnswer taken = profile.get();
        CHECK((taken.status == 200 || taken.status == 409));
    }
    std::ranges::sort(attached);
    WARN(attached.size() << " victims; attached after " << attached[attached.size() / 2]
                         << " s (median), " << attached.back() << " s at most; page after "
                         << slowest_page << " s at most");
    CHECK(attached.back() < 1);
    CHECK(slowest_page < 5);
    const auto told = AttackClock::now();
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
    const std::chrono::duration<double> end = AttackClock::now() - told;
    WARN("ended after " << end.count() << " s");
    CHECK(end < std::chrono::milliseconds(2500));
}

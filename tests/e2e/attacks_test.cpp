// A user who does all at once that keeps the exporter busy or waiting, beside a victim whose
// numbers must be exact. For a minute; GPUSNOOP_ATTACK_SECONDS is another time.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/child.h"
#include "tests/e2e/hostile.h"
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

// A program on a new copy of the runtime: how long it takes until that is attached to. Then it is
// counted to the last call, under its names.
std::chrono::duration<double> check_victim(const Exporter &exporter, const std::string &comm) {
    const TemporaryDirectory directory;
    const auto library = directory / "libcudart.so.12";
    std::filesystem::copy_file(standin("12/libcudart.so.12"), library);
    const auto began = AttackClock::now();
    const e2e::MapsAsCode mapped(library);
    exporter.wait_until_attached_to(library);
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

TEST_CASE("attacks of a user at the same time do not harm others", "[.soak]") {
    require_bpf();
    std::array<e2e::LocksItsMappings, 3> lockers;
    const e2e::HasSlowMap map;
    Exporter exporter(
        "discovery: {rescan_interval: 1s}\nsyscall: {enabled: true}\nin_flight: {min_age: 1ms}\n"
        "targets: {comms: [locker, stacks]}\n" +
        own_groups("auto") +
        "    calls: {libraries: [\"libcalls.so*\"], functions: [calls_callback]}\n");
    const e2e::LaunchesAtAnyAddress addresses;
    const e2e::MapsAsCode mapped(standin("libcalls.so.1"));
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    const Process calls({"setpriv", "--reuid=65534", standin("hangs"), "--threads", "250",
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

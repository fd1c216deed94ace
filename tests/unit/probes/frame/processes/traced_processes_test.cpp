#include "exporter/probes/frame/processes/traced_processes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "bpf/lib/processes/target.h"

using namespace gpusnoop;

namespace {

std::string_view traced_function_name(std::uint16_t number) {
    return number == 1 ? "cuLaunchKernel" : "";
}

probes::TargetsConfig traced_targets(bool gpu_processes, bool names_any) {
    probes::TargetsConfig targets;
    targets.gpu_processes = gpu_processes;
    if (names_any) {
        targets.comms = {"trainer"};
    }
    return targets;
}

probes::TracedProcesses traced_of(const probes::TargetsConfig &targets,
                                  probes::Following following = {}) {
    return {targets, std::chrono::seconds(30), following};
}

Fd traced_file(const char *path) {
    return Fd(::open(path, O_RDONLY | O_CLOEXEC));
}

bool is_same_file(const Fd &one, const Fd &other) {
    struct stat a{};
    struct stat b{};
    return one.get() != other.get() && ::fstat(one.get(), &a) == 0 &&
           ::fstat(other.get(), &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

}  // namespace

TEST_CASE("which processes are targets, and which are followed") {
    struct Case {
        bool gpu_processes;
        bool names_any;
        std::uint32_t kinds;
        std::string targets;
        std::string followed;
    };
    for (const Case &one : {
             Case{true, false, TARGET_GPU_PROCESSES, "GPU processes", "GPU processes"},
             Case{false, true, TARGET_CONFIGURED, "the processes that the configuration names",
                  "the processes that the configuration names"},
             Case{true, true, TARGET_GPU_PROCESSES | TARGET_CONFIGURED,
                  "GPU processes and those that the configuration names",
                  "GPU processes and those that the configuration names"},
         }) {
        CAPTURE(one.targets);
        const auto targets = traced_targets(one.gpu_processes, one.names_any);
        const auto alone = traced_of(targets, {.descendants = false});
        CHECK(alone.targets().kinds() == one.kinds);
        CHECK(alone.targets().describe() == one.targets);
        CHECK(alone.describe_followed() == one.followed);
        CHECK(traced_of(targets).describe_followed() == one.followed + ", and what they start");
    }
    const auto none = traced_of(traced_targets(false, false));
    CHECK(none.targets().kinds() == 0);
    CHECK(none.targets().describe() == "no process: targets names none");
    CHECK(none.describe_followed() == "no process: targets names none");

    auto all = traced_targets(true, true);
    all.all_processes = true;
    const auto traced = traced_of(all);
    CHECK(traced.targets().kinds() == TARGET_EVERYTHING);
    CHECK(traced.targets().describe() == "all processes");
}

TEST_CASE("the CUDA probe follows GPU processes only for probes that follow processes") {
    const auto follows = [](bool gpu_processes, bool enabled) {
        return traced_of(traced_targets(gpu_processes, true), {.enabled = enabled})
            .follows_gpu_processes();
    };
    CHECK(follows(true, true));
    CHECK(!follows(true, false));
    CHECK(!follows(false, true));
    CHECK(!follows(false, false));
}

TEST_CASE("without named processes, no table of targets is kept") {
    auto traced = traced_of(traced_targets(true, false));
    CHECK(traced.targets().start());
    CHECK(traced.targets().changes() == 0);
}

TEST_CASE("a profile gets copies of the table of GPU processes and of the calls of threads") {
    const bool has_names = GENERATE(true, false);
    const bool has_threads = GENERATE(true, false);
    CAPTURE(has_names, has_threads);
    probes::CudaShared of_exporter;
    of_exporter.gpu_processes = {.processes = traced_file("/dev/null"),
                                 .filter = traced_file("/dev/zero")};
    of_exporter.followed.processes = traced_file("/dev/full");
    of_exporter.function_name = has_names ? traced_function_name : nullptr;
    of_exporter.times.threads = has_threads ? traced_file("/dev/urandom") : Fd();
    of_exporter.times.times = traced_file("/dev/full");

    probes::CudaShared of_profile;
    REQUIRE(of_exporter.share_calls_with(of_profile));
    CHECK(is_same_file(of_profile.gpu_processes.processes, of_exporter.gpu_processes.processes));
    CHECK(is_same_file(of_profile.gpu_processes.filter, of_exporter.gpu_processes.filter));
    // Its processes are its own.
    CHECK(!of_profile.followed.processes);
    CHECK(!of_profile.times.times);
    CHECK((of_profile.function_name != nullptr) == (has_names && has_threads));
    CHECK(static_cast<bool>(of_profile.times.threads) == (has_names && has_threads));
    if (has_names && has_threads) {
        CHECK(is_same_file(of_profile.times.threads, of_exporter.times.threads));
    }
}

TEST_CASE("a profile gets nothing of a CUDA probe that is down") {
    const probes::CudaShared of_exporter;
    probes::CudaShared of_profile;
    CHECK(!of_exporter.share_calls_with(of_profile));
    CHECK(!of_profile.gpu_processes.processes);
}

TEST_CASE("without a probe that wants them, ends of GPU processes go nowhere") {
    probes::CudaShared shared;
    shared.on_gpu_process_end({});
    int ends = 0;
    shared.on_gpu_process_end = [&](const probes::GpuProcessEnd &) { ends++; };
    shared.on_gpu_process_end({});
    CHECK(ends == 1);
}

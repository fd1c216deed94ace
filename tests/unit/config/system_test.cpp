#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/config/config.h"

using namespace gpusnoop;
using Texts = std::vector<std::string>;

namespace {

std::string problem_of(const std::string &text) {
    const auto config = config::parse(text, "c.yaml");
    return config ? "" : config.error().message;
}

}  // namespace

TEST_CASE("whom to trace, system calls and fences are read") {
    const auto config = config::parse(R"(
targets:
  gpu_processes: false
  everything: true
  pids: [1, 4194304]
  comms: [python3, "torch*"]
  containers: ["0123456789ab"]
syscall: {enabled: true, syscalls: [memory, ioctl, compat, unknown], max_counts: 100}
fence: {enabled: false, max_fences: 100, ring_bytes: 64KiB}
)",
                                      "c.yaml");
    REQUIRE(config);
    CHECK_FALSE(config->targets.gpu_processes);
    CHECK(config->targets.everything);
    CHECK(config->targets.pids == std::vector<std::uint32_t>{1, 4194304});
    CHECK(config->targets.comms == Texts{"python3", "torch*"});
    CHECK(config->targets.containers == Texts{"0123456789ab"});
    CHECK(config->syscall.enabled);
    CHECK(config->syscall.syscalls == Texts{"memory", "ioctl", "compat", "unknown"});
    CHECK(config->syscall.max_counts == 100);
    CHECK_FALSE(config->fence.enabled);
    CHECK(config->fence.max_fences == 100);
    CHECK(config->fence.ring_bytes == 65536);
}

TEST_CASE("what is wrong with targets, system calls and fences is said with its place") {
    CHECK(problem_of("targets:\n  pid: [1]\n").starts_with("c.yaml:2:3: targets.pid: "));
    CHECK(problem_of("targets: {pids: [0]}\n").starts_with("c.yaml:1:18: targets.pids[0]: "));
    CHECK(problem_of("targets: {pids: 1}\n").starts_with("c.yaml:1:17: targets.pids: "));
    CHECK(
        problem_of("targets: {comms: [\"a[\"]}\n").starts_with("c.yaml:1:19: targets.comms[0]: "));
    CHECK(problem_of("targets: {comms: [a, b, a]}\n") ==
          "c.yaml:1:25: targets.comms[2]: \"a\" is in the list twice");
    CHECK(problem_of("targets: {containers: [\"0123456789a\"]}\n") ==
          "c.yaml:1:24: targets.containers[0]: \"0123456789a\" is not a container's id: its first "
          "12 to 64 hexadecimal digits");
    CHECK(problem_of("targets: {containers: [\"0123456789AB\"]}\n").find("hexadecimal") !=
          std::string::npos);
    CHECK(problem_of("syscall: {syscalls: [opened]}\n") ==
          "c.yaml:1:22: syscall.syscalls[0]: \"opened\" is neither a system call nor a group of "
          "them (file, io, locking, memory, network, polling, process, signal, timing), nor compat "
          "or unknown");
    CHECK(problem_of("syscall: {syscalls: [other]}\n") != "");
    CHECK(problem_of("syscall: {max_counts: 63}\n").starts_with("c.yaml:1:23: syscall.max_counts"));
    CHECK(problem_of("syscall: {ring: 1}\n").starts_with("c.yaml:1:11: syscall.ring: "));
    CHECK(problem_of("fence: {ring_bytes: 5000}\n").starts_with("c.yaml:1:21: fence.ring_bytes"));
    CHECK(problem_of("fence: {fences: 1}\n").starts_with("c.yaml:1:9: fence.fences: "));
}

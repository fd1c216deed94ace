// The block `syscall:` of the configuration.
#include "exporter/probes/syscall/settings.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;

namespace {

std::string syscall_problem_of(const std::string &text) {
    const auto config = config::parse(text, "c.yaml", probes::setting_blocks());
    return config ? "" : config.error().message;
}

}  // namespace

TEST_CASE("the settings of system calls are read") {
    const auto config = config::parse(
        "syscall: {enabled: true, syscalls: [memory, ioctl, compat, unknown], max_counts: 100}\n",
        "c.yaml", probes::setting_blocks());
    REQUIRE(config);
    CHECK(config->of<probes::SyscallConfig>() ==
          probes::SyscallConfig{true, {"memory", "ioctl", "compat", "unknown"}, 100});
}

TEST_CASE("what is wrong with the settings of system calls is said with its place") {
    CHECK(syscall_problem_of("syscall: {syscalls: [opened]}\n") ==
          "c.yaml:1:22: syscall.syscalls[0]: \"opened\" is neither a system call nor a group of "
          "them (file, io, locking, memory, network, polling, process, signal, timing), nor compat "
          "or unknown");
    CHECK(syscall_problem_of("syscall: {syscalls: [other]}\n") != "");
    CHECK(syscall_problem_of("syscall: {max_counts: 63}\n")
              .starts_with("c.yaml:1:23: syscall.max_counts"));
    CHECK(syscall_problem_of("syscall: {ring: 1}\n").starts_with("c.yaml:1:11: syscall.ring: "));
}

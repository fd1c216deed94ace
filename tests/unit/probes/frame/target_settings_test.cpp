// The block `targets:` of the configuration.
#include "exporter/probes/frame/target_settings.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "exporter/probes/frame/registry.h"

using namespace gpusnoop;
using Texts = std::vector<std::string>;

namespace {

std::string problem_of(const std::string &text) {
    const auto config = config::parse(text, "c.yaml", probes::setting_blocks());
    return config ? "" : config.error().message;
}

}  // namespace

TEST_CASE("the processes to trace are read") {
    const auto config = config::parse(R"(
targets:
  gpu_processes: false
  everything: true
  pids: [1, 4194304]
  comms: [python3, "torch*"]
  containers: ["0123456789ab"]
)",
                                      "c.yaml", probes::setting_blocks());
    REQUIRE(config);
    const auto &targets = config->of<probes::TargetsConfig>();
    CHECK_FALSE(targets.gpu_processes);
    CHECK(targets.everything);
    CHECK(targets.pids == std::vector<std::uint32_t>{1, 4194304});
    CHECK(targets.comms == Texts{"python3", "torch*"});
    CHECK(targets.containers == Texts{"0123456789ab"});
}

TEST_CASE("what is wrong with targets is said with its place") {
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
}

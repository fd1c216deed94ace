// The block `targets:` of the configuration.
#include <fnmatch.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/frame/processes/target_table.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/functions/settings.h"
#include "tests/unit/config/problems.h"
#include "tests/unit/sanitized.h"

using namespace gpusnoop;
using Texts = std::vector<std::string>;

TEST_CASE("the processes to trace are read") {
    const auto config = config::parse(R"(
targets:
  gpu_processes: false
  all_processes: true
  pids: [1, 4194304]
  comms: [python3, "torch*"]
  containers: ["0123456789ab"]
)",
                                      "c.yaml", probes::setting_blocks());
    REQUIRE(config);
    const auto &targets = config->of<probes::TargetsConfig>();
    CHECK_FALSE(targets.gpu_processes);
    CHECK(targets.all_processes);
    CHECK(targets.pids == std::vector<std::uint32_t>{1, 4194304});
    CHECK(targets.comms == Texts{"python3", "torch*"});
    CHECK(targets.containers == Texts{"0123456789ab"});
}

TEST_CASE("keys of earlier versions are read under their old names") {
    const auto config = config::parse(R"(
targets: {everything: true}
cuda: {call_sites: 3}
functions: {slow_calls: {keep: 7}}
)",
                                      "c.yaml", probes::setting_blocks());
    REQUIRE(config);
    CHECK(config->of<probes::TargetsConfig>().all_processes);
    CHECK(config->of<probes::CudaConfig>().max_call_sites == 3);
    CHECK(config->of<probes::FunctionsConfig>().slow_calls.history == 7);
    CHECK(test::problems("targets: {everything: true, all_processes: true}\n") ==
          "c.yaml:1:11: targets.everything: is the old name of all_processes, which is given too");
    CHECK(test::problems("cuda: {call_sites: 1001}\n") ==
          "c.yaml:1:20: cuda.call_sites: must be between 0 and 1000, is 1001");
}

TEST_CASE("what is wrong with targets is said with its place") {
    CHECK(test::problems("targets:\n  pid: [1]\n").starts_with("c.yaml:2:3: targets.pid: "));
    CHECK(test::problems("targets: {pids: [0]}\n").starts_with("c.yaml:1:18: targets.pids[0]: "));
    CHECK(test::problems("targets: {pids: 1}\n").starts_with("c.yaml:1:17: targets.pids: "));
    CHECK(test::problems("targets: {comms: [\"a[\"]}\n")
              .starts_with("c.yaml:1:19: targets.comms[0]: "));
    CHECK(test::problems("targets: {comms: [a, b, a]}\n") ==
          "c.yaml:1:25: targets.comms[2]: \"a\" is in the list twice");
    CHECK(test::problems("targets: {containers: [\"0123456789a\"]}\n") ==
          "c.yaml:1:24: targets.containers[0]: \"0123456789a\" is not a container's id: its first "
          "12 to 64 hexadecimal digits");
    CHECK(test::problems("targets: {containers: [\"0123456789AB\"]}\n").find("hexadecimal") !=
          std::string::npos);
}

namespace {

// As the programs in the kernel do it.
bool matches(const target_pattern &pattern, const std::string &name) {
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < PROCESS_COMM_BYTES; i++) {
        const auto byte = i < name.size() ? static_cast<unsigned char>(name[i]) : 0;
        state = (state << 1 & pattern.next[byte]) | (state & pattern.stays[byte]);
    }
    return (state >> pattern.whole & 1) != 0;
}

bool matches(const std::string &glob, const std::string &name) {
    const auto pattern = probes::compile_comm_pattern(glob);
    return pattern && matches(*pattern, name);
}

}  // namespace

TEST_CASE("the BPF programs match names of processes by a table") {
    CHECK(matches("python*", "python3.11"));
    CHECK(matches("*", ""));
    CHECK(matches("", ""));
    CHECK(!matches("", "a"));
    CHECK(!matches("python", "python3"));
    CHECK(matches("*thon?", "python3"));
    CHECK(matches("py[t-u]hon[!x]", "python3"));
    CHECK(!matches("py[^t]hon3", "python3"));
    CHECK(matches("a[[:digit:]]]", "a7]"));
    CHECK(matches("a\\*b", "a*b"));
    CHECK(!matches("a\\*b", "axb"));
    CHECK(matches("[]-]x", "-x"));
    CHECK(matches("fifteen-letters", "fifteen-letters"));
    CHECK(matches("***fif*teen*ters**", "fifteen-letters"));
    CHECK(matches("\xc3*", "\xc3\xa9"));
    // More than a name has.
    CHECK(!probes::compile_comm_pattern("sixteen-letters-").has_value());
    // What these match, the C library decides.
    CHECK(!probes::compile_comm_pattern("[ab").has_value());
    CHECK(!probes::compile_comm_pattern("ab\\").has_value());
}

TEST_CASE("the table matches what fnmatch matches") {
    std::mt19937 random(23);  // NOLINT(cert-msc*): the same each time
    const auto text = [&](const std::string &letters, std::size_t longest) {
        std::string made(random() % (longest + 1), ' ');
        for (char &letter : made) {
            letter = letters[random() % letters.size()];
        }
        return made;
    };
    int compiled = 0;
    constexpr int rounds = random_rounds(30'000);
    for (int i = 0; i < rounds; i++) {
        const std::string glob = text("ab-]**?[[!^\\:", 10);
        const auto pattern = probes::compile_comm_pattern(glob);
        compiled += pattern ? 1 : 0;
        for (int j = 0; pattern && j < 10; j++) {
            const std::string name = text("ab-][\\!", 8);
            CAPTURE(glob, name);
            REQUIRE(matches(*pattern, name) == (::fnmatch(glob.c_str(), name.c_str(), 0) == 0));
        }
    }
    CHECK(compiled > rounds / 3);
}

#include "exporter/probes/frame/registry.h"
#include "exporter/system/capabilities.h"

#include <linux/capability.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>
#include <vector>

#include "exporter/probes/frame/privileges.h"

using namespace gpusnoop;

namespace {

// A number of /proc/self/status.
std::uint64_t status(const std::string &key, int base = 16) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(key + ":\t")) {
            std::uint64_t value = 0;
            std::from_chars(line.data() + key.size() + 2, line.data() + line.size(), value, base);
            return value;
        }
    }
    return ~std::uint64_t{0};
}

std::uint64_t bit(Capability capability) {
    return std::uint64_t{1} << static_cast<unsigned>(capability);
}

// The exit code of a child that runs `body`: which of its steps went wrong.
int in_child(int (*body)()) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        ::_exit(body());
    }
    int ended = 0;
    REQUIRE(::waitpid(pid, &ended, 0) == pid);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
}

config::Config configured(const std::string &text) {
    const auto config = config::parse(text, "config.yaml", probes::setting_blocks());
    REQUIRE(config);
    return *config;
}

ebpf::Features features_with(const std::vector<std::string> &available) {
    ebpf::Features features;
    for (const std::string name : {"uprobe_session", "uprobe_multi", "uprobe_perf"}) {
        const bool has = std::ranges::find(available, name) != available.end();
        features.list.push_back({name, has, has ? "" : "no"});
    }
    return features;
}

bool needs(const config::Config &config, const ebpf::Features &features, Capability capability,
           bool perf_events_take_admin = false) {
    const auto needed = needed_capabilities(config, features, perf_events_take_admin);
    return std::ranges::find(needed, capability) != needed.end();
}

}  // namespace

TEST_CASE("capabilities are named as manuals name them") {
    CHECK(capability_name(CAP_BPF) == "CAP_BPF");
    CHECK(capability_name(CAP_DAC_READ_SEARCH) == "CAP_DAC_READ_SEARCH");
    CHECK(capability_names({}).empty());
    const std::array<Capability, 3> three = {CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE};
    CHECK(capability_names(std::span(three).first(1)) == "CAP_BPF");
    CHECK(capability_names(std::span(three).first(2)) == "CAP_BPF and CAP_PERFMON");
    CHECK(capability_names(three) == "CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE");
}

TEST_CASE("what is given up is gone for good, and the rest is there") {
    // What this process has decides how much of it can be seen.
    CHECK(in_child([] {
              const std::uint64_t before = status("CapPrm");
              const std::array<Capability, 2> wanted = {CAP_BPF, CAP_SYS_PTRACE};
              const auto given_up = keep_capabilities(wanted);
              if (!given_up) {
                  return 1;
              }
              const std::uint64_t kept = before & (bit(CAP_BPF) | bit(CAP_SYS_PTRACE));
              if (status("CapPrm") != kept || status("CapEff") != kept) {
                  return 2;
              }
              if (status("CapInh") != 0 || status("CapAmb") != 0) {
                  return 3;
              }
              const bool may_change_bounds = (before & bit(CAP_SETPCAP)) != 0;
              if (may_change_bounds &&
                  (status("CapBnd") & ~(bit(CAP_BPF) | bit(CAP_SYS_PTRACE))) != 0) {
                  return 4;
              }
              if (status("NoNewPrivs", 10) != 1) {
                  return 5;
              }
              std::uint64_t gone = 0;
              for (const Capability one : *given_up) {
                  gone |= bit(one);
              }
              return gone == (before & ~kept) ? 0 : 6;
          }) == 0);
}

TEST_CASE("a refusal names what is missing, and only that") {
    CHECK(in_child([] {
              if (!keep_capabilities({})) {
                  return 1;
              }
              const std::array<Capability, 2> wanted = {CAP_BPF, CAP_PERFMON};
              if (missing_for(EPERM, wanted) != " (CAP_BPF and CAP_PERFMON are missing)" ||
                  missing_for(EACCES, std::span(wanted).first(1)) != " (CAP_BPF is missing)") {
                  return 2;
              }
              return missing_for(ENOENT, wanted).empty() && missing_for(EPERM, {}).empty() ? 0 : 3;
          }) == 0);
}

TEST_CASE("CAP_SYS_ADMIN stands for what was once part of it") {
    if ((status("CapPrm") & bit(CAP_SYS_ADMIN)) == 0) {
        SKIP("this process has no CAP_SYS_ADMIN");
    }
    CHECK(in_child([] {
              const std::array<Capability, 1> admin = {CAP_SYS_ADMIN};
              if (!keep_capabilities(admin)) {
                  return 1;
              }
              if (!has_capability(CAP_BPF) || !has_capability(CAP_PERFMON) ||
                  !has_capability(CAP_CHECKPOINT_RESTORE) || has_capability(CAP_SYS_PTRACE)) {
                  return 2;
              }
              return holds_capability(CAP_BPF) ? 3 : 0;
          }) == 0);
}

TEST_CASE("what is kept is what the configuration uses on this kernel") {
    const auto newest = features_with({"uprobe_session", "uprobe_multi", "uprobe_perf"});
    const auto oldest = features_with({"uprobe_perf"});
    const config::Config defaults;
    for (const Capability always :
         {CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE}) {
        CHECK(needs(defaults, newest, always));
        CHECK(needs(defaults, oldest, always));
    }
    for (const Capability never :
         {CAP_CHOWN, CAP_KILL, CAP_SETUID, CAP_NET_ADMIN, CAP_SYS_MODULE}) {
        CHECK_FALSE(needs(defaults, oldest, never));
    }
    if (holds_capability(CAP_BPF) && holds_capability(CAP_PERFMON)) {
        CHECK_FALSE(needs(defaults, newest, CAP_SYS_ADMIN));
        CHECK(needs(defaults, newest, CAP_SYS_ADMIN, true));
    }
    CHECK(probes::attaches_by_perf(defaults, oldest));
    CHECK_FALSE(probes::attaches_by_perf(defaults, newest));
    CHECK(needs(defaults, oldest, CAP_SYS_ADMIN));
    CHECK(needs(configured("host: {kvm: {enabled: true}}"), newest, CAP_SYS_ADMIN));
    CHECK(needs(configured("cuda: {attach: perf}"), newest, CAP_SYS_ADMIN));
    CHECK(needs(configured("functions: {attach: perf}"), newest, CAP_SYS_ADMIN));
    CHECK_FALSE(
        probes::attaches_by_perf(configured("functions: {attach: perf, enabled: false}"), newest));

    CHECK_FALSE(needs(defaults, newest, CAP_NET_BIND_SERVICE));
    CHECK(needs(configured("web: {listen_address: \":443\"}"), newest, CAP_NET_BIND_SERVICE));
    CHECK_FALSE(
        needs(configured("web: {listen_address: \":1024\"}"), newest, CAP_NET_BIND_SERVICE));

    CHECK_FALSE(needs(defaults, newest, CAP_DAC_OVERRIDE));
    CHECK(needs(configured("sinks: [{type: unix, path: /run/x.sock}]"), newest, CAP_DAC_OVERRIDE));
    CHECK(needs(configured("sinks: [{type: file, path: /tmp/x}]"), newest, CAP_DAC_OVERRIDE));
    CHECK_FALSE(
        needs(configured("sinks: [{type: tcp, address: \"x:9000\"}]"), newest, CAP_DAC_OVERRIDE));
}

// Where return probes would end programs under seccomp, there are no return probes.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>

#include "exporter/cli/doctor/checks.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/functions/setting_groups.h"

using namespace gpusnoop;
using gpusnoop::ebpf::Endings;

namespace {

ebpf::Features with(bool harmless) {
    ebpf::Features features;
    features.list.push_back(
        {"uretprobe_seccomp", harmless, harmless ? "" : "ended by the signal 11"});
    return features;
}

probes::FunctionGroups some_groups() {
    probes::FunctionGroup group;
    group.libraries = {"libx.so*"};
    group.functions = {{.symbol = "plain"}, {.symbol = "says_so"}, {.symbol = "entry_only"}};
    group.functions[1].overrides.endings = Endings::automatic;
    group.functions[2].overrides.entry_only = true;
    return {{"some", group}};
}

}  // namespace

TEST_CASE("a child that needs no filtered system call survives, and one that does is seen to end") {
    CHECK(ebpf::survives_without(SYS_getppid, [] {}));
    CHECK(ebpf::survives_without(SYS_getppid, [] {
        if (::getppid() >= 0) {
            std::abort();  // it was not filtered
        }
    }));
    // As the kernel's own call at a return does where it fails.
    const auto ended = ebpf::survives_without(SYS_getppid, [] {
        if (::getppid() < 0) {
            ::raise(SIGSEGV);
        }
    });
    REQUIRE_FALSE(ended);
    CHECK_THAT(ended.error().message, Catch::Matchers::ContainsSubstring("ended by the signal 11"));
}

TEST_CASE("return probes that would end programs under seccomp are replaced by exits") {
    const auto cuda = probes::as_is_harmless(probes::CudaConfig{}, with(false));
    CHECK(cuda.endings == Endings::exits);
    const auto groups = probes::as_is_harmless(some_groups(), with(false));
    const probes::FunctionGroup &group = groups.at("some");
    for (const probes::FunctionPattern &pattern : group.functions) {
        CHECK(probes::options_of(group, pattern).endings == Endings::exits);
    }
    CHECK(probes::options_of(group, group.functions[2]).entry_only);
}

TEST_CASE("harmless return probes stay as they are configured") {
    for (const ebpf::Features &features : {with(true), ebpf::Features{}}) {
        CHECK(probes::as_is_harmless(probes::CudaConfig{}, features) == probes::CudaConfig{});
        CHECK(probes::as_is_harmless(some_groups(), features) == some_groups());
    }
}

TEST_CASE("the doctor says what harmful return probes cost") {
    const auto finding = [](bool harmless) {
        const auto findings = doctor::judge_features(with(harmless), {});
        const auto found =
            std::ranges::find(findings, "uretprobe_seccomp", &doctor::Finding::check);
        REQUIRE(found != findings.end());
        return *found;
    };
    CHECK(finding(true).verdict == doctor::Verdict::ok);
    CHECK(finding(true).costs.empty());
    CHECK(finding(false).verdict == doctor::Verdict::warn);
    CHECK_THAT(finding(false).costs, Catch::Matchers::ContainsSubstring("probes exits instead"));
}

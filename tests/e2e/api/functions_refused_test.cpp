// Functions with instructions that the kernel allows no probe on.
#include <dlfcn.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <string>

#include "tests/e2e/child.h"
#include "tests/harness/calls_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

#if defined(__x86_64__)
TEST_CASE("a function that the kernel allows no probe on leaves the others of its file counted",
          "[e2e][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    const e2e::Child program([&] {
        void *library = ::dlopen(standin("libodd.so.1").c_str(), RTLD_NOW);
        const auto locked = e2e::function_of<long(long *)>(library, "odd_locked");
        const auto plain = e2e::function_of<long(long)>(library, "odd_plain");
        const auto other = e2e::function_of<long(long)>(library, "odd_other");
        const auto cpp = e2e::function_of<long(long)>(library, "_ZN3odd5plainEl");
        const auto jump = e2e::function_of<long(long)>(library, "_ZN3odd4jumpEl");
        e2e::wait_for_file(directory / "go");
        long sum = 0;
        for (int i = 0; i < 100; i++) {
            sum += locked(&sum) + plain(i) + plain(i) + other(i) + cpp(i) + jump(i);
        }
        write_file(directory / "done", std::to_string(sum));
        e2e::pause_for_ever();
        return 0;
    });
    const Exporter exporter(only_groups(mode) + R"(
    odd:
      libraries: ["libodd.so*"]
      functions: ["odd_*", {name: "odd::plain", symbol: _ZN3odd5plainEl}, {name: "odd::jump", symbol: _ZN3odd4jumpEl}]
)");
    exporter.wait_until_attached_to(standin("libodd.so.1"));
    write_file(directory / "go", "");
    const std::string calls = "gpusnoop_function_calls_total";
    (void)exporter.wait_for(calls, {{"function", "odd_plain"}}, 200);
    (void)exporter.wait_for(calls, {{"function", "odd_other"}}, 100);
    (void)exporter.wait_for(calls, {{"function", "odd::plain"}}, 200);  // half of them by odd::jump
    const Page page = exporter.wait_for(calls, {{"function", "odd::jump"}}, 100);
    CHECK_FALSE(page.has(calls, {{"function", "odd_locked"}}));
    CHECK(page.sum("gpusnoop_probe_attached_functions", {{"probe", "functions"}}) == 4);
    CHECK(page.sum("gpusnoop_probe_attach_failures_total", {{"probe", "functions"}}) == 0);
    // Their ends are seen.
    const std::string count = "gpusnoop_function_duration_seconds_count";
    CHECK(page.sum(count, {{"function", "odd_plain"}}) == 200);
    CHECK(page.sum(count, {{"function", "odd::plain"}}) == 200);
    CHECK_FALSE(page.has(count, {{"function", "odd::jump"}}));
    const std::string log = exporter.log();
    CHECK(log.find("functions=odd::jump") != std::string::npos);
    CHECK(log.find("odd_halt") != std::string::npos);
    CHECK(log.find("odd_locked") != std::string::npos);
    eventually("the program to have made its calls",
               [&] { return std::filesystem::exists(directory / "done"); });
}
#endif

// C functions of a language whose functions unwind the stack, as those of Rust that panic.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/harness/calls_truth.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

TEST_CASE("a C function of Rust that panics ends as it does untraced", "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter(only_groups(mode) + R"(
    unwinds:
      libraries: ["libunwinds.so*"]
      functions: [unwinds_call]
)");
    const Process program({standin("unwinds"), "1000"});
    exporter.wait_until_attached_to(standin("libunwinds.so.1"));
    program.wait_for_output("waiting");
    program.signal(SIGUSR1);
    program.wait_for_output("done, caught 1000, sum 500500");
    const Labels of = {{"comm", "unwinds"}, {"function", "unwinds_call"}};
    const Page page = exporter.wait_for("gpusnoop_function_calls_total", of, 1000);
    CHECK(page.sum("gpusnoop_function_duration_seconds_count", of) == 1000);
    check_account_at_rest(exporter);
}

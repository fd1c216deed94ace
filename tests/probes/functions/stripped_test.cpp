// Static functions of stripped libraries, by their debug files.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>

#include "tests/harness/calls_truth.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

TEST_CASE("a static function of a stripped library is traced by its debug file", "[kernel]") {
    require_bpf();
    const std::string kind = GENERATE("by_id", "by_link", "inside");
    CAPTURE(kind);
    const TemporaryDirectory directory;
    const fs::path library = directory / "libstripped.so.1";
    fs::copy(standin("stripped/" + kind + "/libstripped.so.1"), library);
    if (kind != "inside") {  // this one has its symbols in .gnu_debugdata
        fs::create_directory(directory / ".debug");
        fs::copy(standin("stripped/" + kind + "/libstripped.so.1.debug"),
                 directory / ".debug/libstripped.so.1.debug");
    }
    const Exporter exporter(only_groups("auto") + R"(
    stripped:
      libraries: ["libstripped.so*"]
      functions: ["stripped_*"]
)");
    const Process caller({standin("stripped_caller"), library.string(), "1000"});
    exporter.wait_until_attached_to(library);
    caller.signal(SIGUSR1);
    caller.wait_for_output("done");
    const Labels of = {{"comm", "stripped_caller"}};
    const Page page = exporter.wait_for("gpusnoop_function_calls_total", of, 1001);
    const auto calls = [&](const std::string &function) {
        return page.sum("gpusnoop_function_calls_total",
                        {{"comm", "stripped_caller"}, {"function", function}});
    };
    CHECK(calls("stripped_hidden") == 1000);
    CHECK(calls("stripped_run") == 1);
    CHECK(page.has("gpusnoop_function_duration_seconds_count",
                   {{"comm", "stripped_caller"}, {"function", "stripped_hidden"}}));
    check_account_at_rest(exporter);
}

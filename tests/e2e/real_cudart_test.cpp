// NVIDIA's own CUDA runtime, on a machine without a driver: every call fails, and each failure is
// counted once.
#include <glob.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <map>
#include <sstream>

#include "exporter/symbols/names/cuda_errors.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

const std::string real_cudart_comm = "failing_calls";

fs::path real_library() {
    glob_t found{};
    fs::path library;
    if (::glob("/usr/local/cuda/lib64/libcudart.so.[0-9]*", 0, nullptr, &found) == 0) {
        library = found.gl_pathv[0];
    }
    ::globfree(&found);
    if (library.empty()) {
        missing("the CUDA toolkit's libcudart");
    }
    return library;
}

fs::path compile_program(const TemporaryDirectory &directory) {
    const fs::path nvcc = "/usr/local/cuda/bin/nvcc";
    if (!fs::exists(nvcc)) {
        missing("nvcc, to build CUDA programs");
    }
    const fs::path program = directory / "failing_calls";
    const Finished built = run({nvcc, "-cudart", "shared", "-o", program,
                                std::string(GPUSNOOP_SOURCE_DIR) + "/tests/e2e/failing_calls.cu"});
    INFO(built.output);
    REQUIRE(built.code == 0);
    return program;
}

// How often each function gave each error, by the program's own account.
using Errors = std::map<std::pair<std::string, std::string>, double>;

Errors real_cudart_errors_of(const std::string &output) {
    Errors errors;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string function;
        int code = 0;
        if (words >> function >> code) {
            if (code == 0) {
                missing("a machine without a CUDA driver");
            }
            errors[{function, std::string(gpusnoop::probes::cuda_error_name(code))}]++;
        }
    }
    return errors;
}

}  // namespace

TEST_CASE("calls of the real runtime that fail are errors, once each, and nothing else",
          "[e2e][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const fs::path library = real_library();
    const TemporaryDirectory directory;
    const fs::path program = compile_program(directory);
    const Exporter exporter("cuda:\n  attach: " + mode + "\n");
    const Process run({program, "500", directory / "go"},
                      {{"LD_LIBRARY_PATH", library.parent_path()}});
    run.wait_for_output("ready");
    exporter.wait_until_attached_to(library);
    // Of a call of another program that was running when its library was attached to.
    const double unmatched = exporter.scrape().sum("gpusnoop_probe_unmatched_returns_total");
    const double nested = exporter.scrape().sum("gpusnoop_probe_nested_calls_total");
    write_file(directory / "go", "");
    run.wait_for_output("holding");

    const Errors errors = real_cudart_errors_of(run.output());
    REQUIRE(errors.size() >= 5);
    double total = 0;
    for (const auto &[error, count] : errors) {
        total += count;
    }
    CHECK(total == 3000);
    const Labels of = {{"comm", real_cudart_comm}};
    // The first launch of a kernel asks for its handle, which is a call of its own from CUDA 13 on.
    const Labels handle = {{"comm", real_cudart_comm}, {"function", "__cudaGetKernel"}};
    eventually("the errors", [&] {
        const Page now = exporter.scrape();
        return now.sum("gpusnoop_cuda_api_errors_total", of) -
                   now.sum("gpusnoop_cuda_api_errors_total", handle) >=
               total;
    });
    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_cuda_api_errors_total", handle) <= 1);
    for (const auto &[error, count] : errors) {
        INFO(error.first << " " << error.second);
        CHECK(page.sum("gpusnoop_cuda_api_errors_total", {{"comm", real_cudart_comm},
                                                          {"function", error.first},
                                                          {"error", error.second}}) == count);
    }
    // Not the library's functions under other names, either.
    CHECK(page.samples("gpusnoop_cuda_api_errors_total", of).size() ==
          errors.size() + page.samples("gpusnoop_cuda_api_errors_total", handle).size());

    for (const auto *family :
         {"memory_allocations_total", "memory_allocated_bytes_total", "memory_frees_total",
          "memory_untracked_frees_total", "memcpy_total", "memcpy_bytes_total",
          "memcpy_seconds_total", "memcpy_size_bytes_count", "kernel_launches_total",
          "kernel_launch_duration_seconds_count"}) {
        INFO(family);
        CHECK(page.sum("gpusnoop_cuda_" + std::string(family), of) == 0);
    }
    CHECK(page.has("gpusnoop_cuda_memory_outstanding_bytes", of));
    CHECK(page.sum("gpusnoop_cuda_memory_outstanding_bytes", of) == 0);
    CHECK(page.sum("gpusnoop_probe_unmatched_returns_total") == unmatched);
    check_account_at_rest(exporter);
    // A launch is two of the library's functions, and has one probe: __cudaLaunchKernel only jumps
    // to cudaLaunchKernel. Beside the tests, another program may make a few nested calls.
    CHECK(page.sum("gpusnoop_probe_nested_calls_total") - nested < 500);
}

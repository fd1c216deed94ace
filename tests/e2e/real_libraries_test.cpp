// Libraries that others have built: NVIDIA's, on a machine without a driver, whose calls fail, each
// by the name of its error; and one in C++ that throws through what is traced.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "exporter/probes/functions/count/errors.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;
using gpusnoop::probes::ErrorKind;

namespace {

const fs::path toolkit = "/usr/local/cuda/lib64";

struct RealFunction {
    std::string library;
    std::string function;
    ErrorKind errors;
};

const std::vector<RealFunction> functions = {
    {"libcublas.so.13", "cublasCreate_v2", ErrorKind::cublas_status},
    {"libcudnn.so.9", "cudnnCreate", ErrorKind::cudnn_status},
    {"libnccl.so.2", "ncclCommInitAll", ErrorKind::nccl_result}};

std::map<std::string, std::map<int, double>> codes_of(const std::string &output) {
    std::map<std::string, std::map<int, double>> codes;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string function;
        int code = 0;
        if (words >> function >> code) {
            if (code == 0) {
                missing("a machine without a CUDA driver");
            }
            codes[function][code]++;
        }
    }
    return codes;
}

// The file of this name that a process has mapped.
std::string mapped_by(pid_t pid, const std::string &name) {
    std::istringstream maps(read_file("/proc/" + std::to_string(pid) + "/maps"));
    for (std::string line; std::getline(maps, line);) {
        if (const auto at = line.find('/'); line.find("/" + name) != std::string::npos) {
            return line.substr(at);
        }
    }
    FAIL(name << " is not mapped");
    return "";
}

}  // namespace

TEST_CASE("calls of NVIDIA's own libraries that fail are errors by their names", "[e2e]") {
    require_bpf();
    const std::string mode = GENERATE("session", "multi");
    CAPTURE(mode);
    const TemporaryDirectory directory;
    std::vector<std::string> command = {standin("failing_libraries"), "20", directory / "go"};
    for (const RealFunction &one : functions) {
        if (!fs::exists(toolkit / one.library)) {
            missing("the CUDA toolkit's " + one.library);
        }
        command.push_back(one.library + ":" + one.function);
    }
    const Exporter exporter("cuda: {enabled: false}\nfunctions: {attach: " + mode + "}\n");
    const Process program(command, {{"LD_LIBRARY_PATH", toolkit.string()}});
    program.wait_for_output("ready");
    for (const RealFunction &one : functions) {
        exporter.wait_until_attached_to(toolkit / one.library);
    }
    // Of a call of another program that was running when its library was attached to.
    const double unmatched = exporter.scrape().sum("gpusnoop_probe_unmatched_returns_total");
    write_file(directory / "go", "");
    program.wait_for_output("holding");

    const auto codes = codes_of(program.output());
    REQUIRE(codes.size() == functions.size());
    for (const RealFunction &one : functions) {
        const Labels of = {
            {"comm", "failing_libs"}, {"library", one.library}, {"function", one.function}};
        const Page page = exporter.wait_for("gpusnoop_function_calls_total", of, 20);
        CHECK(page.sum("gpusnoop_function_duration_seconds_count", of) == 20);
        CHECK(page.sum("gpusnoop_function_errors_total", of) == 20);
        for (const auto &[code, count] : codes.at(one.function)) {
            const auto name =
                gpusnoop::probes::error_of(one.errors, static_cast<std::uint64_t>(code));
            REQUIRE(name);
            INFO(one.function << " " << *name);
            CHECK(name->find("code_") == std::string::npos);
            Labels with_code = of;
            with_code["error"] = *name;
            CHECK(page.sum("gpusnoop_function_errors_total", with_code) == count);
        }
    }
    CHECK(exporter.scrape().sum("gpusnoop_probe_unmatched_returns_total") == unmatched);
}

TEST_CASE("a C++ library that throws through traced functions does as it does untraced",
          "[e2e][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    write_file(directory / "good.yaml", "log: {level: debug}\n");
    write_file(directory / "bad.yaml", "log: {level: \"debug\n  - [");
    const auto read = [&](const char *file) {
        return run({standin("reads_yaml"), (directory / file).string()});
    };
    const Finished untraced = read("bad.yaml");
    REQUIRE(untraced.code == 1);

    const Exporter exporter(
        "cuda: {enabled: false}\nfunctions:\n  attach: " + mode +
        "\n  groups:\n    yaml:\n      libraries: [\"libyaml-cpp.so*\"]\n"
        "      functions: [_ZN4YAML4LoadERSi, \"_ZN4YAML6Parser18HandleNextDocument*\"]\n");
    // A process that keeps the library in use, so that the short ones find the probes there.
    const Process holder({standin("reads_yaml"), "--hold"});
    holder.wait_for_output("holding");
    exporter.wait_until_attached_to(mapped_by(holder.pid(), "libyaml-cpp.so"));
    const Labels load = {{"comm", "reads_yaml"}, {"function", "YAML::Load"}};
    constexpr int times = 25;
    for (int i = 0; i < times; i++) {
        CHECK(read("good.yaml").code == 0);
        const Finished traced = read("bad.yaml");
        CHECK(traced.code == untraced.code);
        CHECK(traced.output == untraced.output);
    }
    const Page page = exporter.wait_for("gpusnoop_function_calls_total", load, times);
    CHECK(page.sum("gpusnoop_function_duration_seconds_count", load) == times);
    // Those that were left by an exception.
    eventually("the calls that never return",
               [&] { return exporter.scrape().sum("gpusnoop_probe_stale_calls_total") >= times; });
    CHECK(exporter.scrape().sum("gpusnoop_probe_events_lost_total") == 0);
}

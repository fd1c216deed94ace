// The picture of the page at / in the documents: GPUs as the driver lists them, and stand-in
// programs on them, of which one leaks, one hangs, one finds no memory and one crashes.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/status/assets.h"
#include "tests/e2e/browser.h"
#include "tests/harness/directory.h"
#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/harness/process.h"
#include "tests/harness/pythons.h"

using namespace harness;

namespace {

// Where this machine has its build and its files is nothing that a picture is for.
std::string without_places(std::string html) {
    std::array<char, 256> host{};
    REQUIRE(::gethostname(host.data(), host.size() - 1) == 0);
    html = std::regex_replace(html, std::regex("<h1>" + std::string(host.data()) + "</h1>"),
                              "<h1>gpu-a01</h1>");
    html = std::regex_replace(html, std::regex(R"([\w./-]*/standin/([\w.]+/)*)"), "/opt/demo/");
    html = std::regex_replace(html, std::regex(R"([\w./-]*/python)"), "/usr/bin/python");
    html = std::regex_replace(html, std::regex("of root"), "of alice");
    return std::regex_replace(html, std::regex(R"([\w./-]*/config\.yaml)"),
                              "/etc/gpusnoop_exporter/config.yaml");
}

Process program(std::vector<std::string> command, const std::string &gpu,
                std::uint64_t gib_of_gpu = 141) {
    command.front() = standin(command.front());
    return Process(std::move(command),
                   {{"CUDA_VISIBLE_DEVICES", gpu},
                    {"STANDIN_MEMORY_LIMIT", std::to_string(gib_of_gpu << 30U)}});
}

// In a call of its line of Python that never returns.
Process hanging_python(const TemporaryDirectory &directory, const std::string &gpu) {
    const std::string script = directory / "eval.py";
    std::filesystem::copy_file(GPUSNOOP_SOURCE_DIR "/tests/fakes/hangs/hangs.py", script);
    std::vector<std::string> command = python_words(python_commands().front());
    command.insert(command.end(), {script, "main", standin("12/libcudart.so.12")});
    Process process(std::move(command), {{"CUDA_VISIBLE_DEVICES", gpu}});
    process.wait_for_output("waiting");
    return process;
}

void report(const std::string &line) {
    const gpusnoop::Fd file(::open("/dev/kmsg", O_WRONLY | O_CLOEXEC));
    if (!file) {
        missing("to write to /dev/kmsg");
    }
    REQUIRE(::write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()));
}

// The page once there is something to see on it, and its stylesheet.
void write_page(const TemporaryDirectory &directory) {
    const GpuNode gpus(4);
    const Exporter exporter(gpus.config() +
                            "in_flight: {min_age: 1s}\nxid: {enabled: true}\n"
                            "host: {time: {enabled: true}, life: {enabled: true}}\n");
    // What begins later is known from its first call.
    const Process serve = program({"leaky", "--bytes", std::to_string(std::uint64_t{5} << 30U),
                                   "--times", "1", "--hold", "--name", "serve"},
                                  "1");
    for (const std::string library : {"12/libcudart.so.12", "driver/libcuda.so.1"}) {
        exporter.wait_until_attached_to(standin(library));
    }
    const Process train = program({"workload", "--threads", "2", "--seconds", "600", "--rate",
                                   "2000", "--leak", std::to_string(2U << 20U), "--name", "train"},
                                  "0");
    const Process infer = program(
        {"workload", "--seconds", "600", "--rate", "200", "--failures", "--name", "infer"}, "2");
    const Process hanging = hanging_python(directory, "3");
    hanging.signal(SIGUSR1);
    Process crashing =
        program({"workload", "--seconds", "600", "--rate", "200", "--name", "export"}, "1");
    ::sleep(60);
    report("<6>NVRM: Xid (PCI:0000:4b:00): 31, pid=" + std::to_string(crashing.pid()) +
           ", name=export, Ch 00000008, MMU Fault: ENGINE GRAPHICS\n");
    ::sleep(2);
    crashing.signal(SIGSEGV);
    CHECK(crashing.wait() == 128 + SIGSEGV);
    ::sleep(60);  // until there are some samples of what the programs hold
    write_file(directory / "page.html", without_places(http(exporter.port(), "/").body));
    write_file(directory / "status.css", gpusnoop::status::stylesheet().text);
}

}  // namespace

TEST_CASE("a picture of the page at /", "[.picture]") {
    require_bpf();
    const char *picture = std::getenv("GPUSNOOP_PICTURE");
    REQUIRE(picture != nullptr);
    const TemporaryDirectory directory;
    write_page(directory);
    auto command = e2e::browser(directory);
    const char *size = std::getenv("GPUSNOOP_PICTURE_SIZE");
    command.insert(command.end(), {"--hide-scrollbars", "--screenshot=" + std::string(picture),
                                   "--window-size=" + std::string(size ? size : "1280,1750"),
                                   "file://" + (directory / "page.html").string()});
    if (std::getenv("GPUSNOOP_PICTURE_DARK") != nullptr) {
        command.insert(command.begin() + 1, "--blink-settings=preferredColorScheme=0");
    }
    const Finished finished = run(std::move(command));
    INFO(finished.output);
    CHECK(finished.code == 0);
    CHECK(std::filesystem::file_size(picture) > 10'000);
}

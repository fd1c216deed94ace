// Libraries of groups under names that no group has.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>

#include "tests/e2e/child.h"
#include "tests/harness/counting.h"
#include "tests/harness/exporter.h"

using namespace harness;

TEST_CASE("doctor names a library of a group that has an unexpected name", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string unnamed = directory / "libplugin.so";
    const std::string renamed = directory / "libcublas-1a2b3c4d.so.12";
    const std::string by_exports = directory / "xla_cuda_plugin.so";
    std::filesystem::copy(standin("libcublas.so.12"), unnamed);
    std::filesystem::copy(standin("libcublas.so.12"), renamed);
    std::filesystem::copy(standin("libnccl.so.2"), by_exports);
    const e2e::Child program([&] {
        const bool is_loaded =
            ::dlopen(standin("12/libcudart.so.12").c_str(), RTLD_NOW) != nullptr &&
            ::dlopen(unnamed.c_str(), RTLD_NOW) != nullptr &&
            ::dlopen(renamed.c_str(), RTLD_NOW) != nullptr &&
            ::dlopen(by_exports.c_str(), RTLD_NOW) != nullptr;
        write_file(directory / "loaded", std::to_string(is_loaded));
        e2e::pause_for_ever();
        return 0;
    });
    e2e::wait_for_file(directory / "loaded");
    const Finished doctor = run({exporter_binary(), "doctor", "--web.listen-address=127.0.0.1:0"});
    CAPTURE(doctor.output);
    CHECK(doctor.output.find(unnamed + " exports cublasCreate_v2 of the group cublas") !=
          std::string::npos);
    CHECK(doctor.output.find("add its name to functions.groups.cublas.libraries") !=
          std::string::npos);
    CHECK(doctor.output.find(renamed + " exports") == std::string::npos);
    CHECK(doctor.output.find(by_exports + " exports") == std::string::npos);
}

TEST_CASE("the log names a library of a group that has an unexpected name, once", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::string unnamed = directory / "libplugin.so";
    const std::string later = directory / "liblater.so";
    std::filesystem::copy(standin("libcublas.so.12"), unnamed);
    std::filesystem::copy(standin("libcublas.so.12"), later);
    const auto uses = [&](const std::string &first, const std::string &then) {
        return [&directory, first, then] {
            if (::dlopen(standin("12/libcudart.so.12").c_str(), RTLD_NOW) == nullptr ||
                ::dlopen(first.c_str(), RTLD_NOW) == nullptr) {
                return 1;
            }
            e2e::wait_for_file(directory / "go");
            if (::dlopen(then.c_str(), RTLD_NOW) == nullptr) {
                return 1;
            }
            e2e::pause_for_ever();
            return 0;
        };
    };
    const e2e::Child before(uses(unnamed, unnamed));
    const Exporter exporter("functions: {}\n");
    const std::string said =
        "a library with an unexpected name has functions of a group, and is not traced";
    const auto lines_of = [&](const std::string &path) {
        std::size_t lines = 0;
        std::istringstream log(exporter.log());
        for (std::string line; std::getline(log, line);) {
            lines += count(line, said) * count(line, "path=" + path + " ");
        }
        return lines;
    };
    eventually("the log to name " + unnamed, [&] { return lines_of(unnamed) > 0; });
    CHECK(count(exporter.log(),
                "it exports cublasCreate_v2 of the group cublas: add its name to "
                "functions.groups.cublas.libraries") >= 1);
    // A file that a process maps after it was scanned, long before the next rescan; and one that
    // was named already.
    const e2e::Child other(uses(unnamed, later));
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    CHECK(lines_of(later) == 0);
    write_file(directory / "go", "");
    eventually("the log to name " + later, [&] { return lines_of(later) > 0; });
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    CHECK(lines_of(unnamed) == 1);
    CHECK(lines_of(later) == 1);
}

TEST_CASE("a library in a file in memory is traced by the name behind memfd:", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const Exporter exporter("functions: {}\n");
    const e2e::Child program([&] {
        const std::string bytes = read_file(standin("libcublas.so.12"));
        const int file = ::memfd_create("libcublas-in-memory.so.12", 0);
        if (::write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
            return 1;
        }
        ::prctl(PR_SET_NAME, "in_memory");
        void *const library = ::dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW);
        auto *const create = e2e::function_of<int(void **)>(library, "cublasCreate_v2");
        write_file(directory / "loaded", "");
        e2e::wait_for_file(directory / "go");
        void *handle = nullptr;
        for (int i = 0; i < 321; i++) {
            (void)create(&handle);
        }
        e2e::pause_for_ever();
        return 0;
    });
    e2e::wait_for_file(directory / "loaded");
    exporter.wait_for_log("library=libcublas-in-memory.so.12");
    write_file(directory / "go", "");
    const Page page =
        exporter.wait_for("gpusnoop_function_calls_total",
                          {{"comm", "in_memory"}, {"library", "libcublas-in-memory.so.12"}}, 321);
    CHECK(page.sum("gpusnoop_function_calls_total",
                   {{"comm", "in_memory"}, {"function", "cublasCreate_v2"}}) == 321);
}

// Libraries that come and go: opened late, replaced, unlinked.
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <filesystem>

#include "tests/e2e/child.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

const std::string name = "libcudart.so.12";
const std::string libraries_original = standin("12/libcudart.so.12");

// A workload on the library in this directory, which waits for "go" there.
Process workload_on(const fs::path &directory, const std::string &comm) {
    fs::create_directories(directory / comm);
    return Process({standin("workload"), "--iterations", "300", "--failures", "--leak", "1000",
                    "--name", comm, "--wait-for-file", directory / "go", "--hold"},
                   {{"STANDIN_TRUTH_DIR", (directory / comm).string()},
                    {"LD_LIBRARY_PATH", directory.string()}});
}

void libraries_check_counted(const Exporter &exporter, const fs::path &directory,
                             const std::string &comm) {
    const auto truth = truth::sum(truth::read_truth(directory / comm));
    REQUIRE(truth.launches > 0);
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}},
                                        static_cast<double>(truth.launches));
    check_counters(page, truth, comm);
    check_outstanding(page, truth);
}

}  // namespace

TEST_CASE("a library that a program opens late is attached to", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    fs::copy_file(libraries_original, directory / name);
    const Exporter exporter;
    const e2e::Child child([&] {
        ::setenv("STANDIN_TRUTH_DIR", directory.path().c_str(), 1);
        ::prctl(PR_SET_NAME, "late_opener");
        e2e::wait_for_file(directory / "open");
        void *library = ::dlopen((directory / name).c_str(), RTLD_NOW);
        const auto allocate = e2e::function_of<int(void **, std::size_t)>(library, "cudaMalloc");
        const auto free = e2e::function_of<int(void *)>(library, "cudaFree");
        write_file(directory / "opened", "");
        e2e::wait_for_file(directory / "go");
        for (std::size_t i = 1; i <= 100; i++) {
            void *memory = nullptr;
            if (allocate(&memory, i) != 0 || (i % 3 == 0 && free(memory) != 0)) {
                return 1;
            }
        }
        write_file(directory / "done", "");
        e2e::pause_for_ever();
        return 0;
    });
    const auto told = std::chrono::steady_clock::now();
    write_file(directory / "open", "");
    exporter.wait_until_attached_to(directory / name);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - told;
    WARN("attached at most " << took.count() << " ms after dlopen");
    eventually("the library to be open", [&] { return fs::exists(directory / "opened"); });
    write_file(directory / "go", "");
    eventually("the calls", [&] { return fs::exists(directory / "done"); });

    const auto truths = truth::read_truth(directory.path());
    REQUIRE(truths.size() == 1);
    const Page page =
        exporter.wait_for("gpusnoop_cuda_memory_allocations_total", {{"comm", "late_opener"}}, 100);
    check_counters(page, truths.front(), "late_opener");
    check_outstanding(page, truths.front());
}

TEST_CASE("a library that is replaced while programs run is attached to again",
          "[e2e][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes({"session", "multi", "perf"})));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    fs::copy_file(libraries_original, directory / name);
    const Exporter exporter(attached_by(mode));
    const Process old_program = workload_on(directory.path(), "old");
    exporter.wait_until_attached_to(directory / name);

    // As package managers do it.
    fs::copy_file(libraries_original, directory / "new");
    fs::rename(directory / "new", directory / name);
    const Process new_program = workload_on(directory.path(), "new_one");
    exporter.wait_until_attached_to(directory / name);
    write_file(directory / "go", "");
    old_program.wait_for_output("holding");
    new_program.wait_for_output("holding");
    libraries_check_counted(exporter, directory.path(), "old");
    libraries_check_counted(exporter, directory.path(), "new_one");
}

TEST_CASE("a library that was unlinked before the exporter started is attached to", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    fs::copy_file(libraries_original, directory / name);
    const Process program = workload_on(directory.path(), "unlinked");
    program.wait_for_output("ready");
    // Another name for it, so that the test can ask for its inode.
    fs::create_hard_link(directory / name, directory / "kept");
    fs::remove(directory / name);
    const Exporter exporter;
    exporter.wait_until_attached_to(directory / "kept");
    write_file(directory / "go", "");
    program.wait_for_output("holding");
    libraries_check_counted(exporter, directory.path(), "unlinked");
}

TEST_CASE("one file under many names is attached to once", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    fs::copy_file(libraries_original, directory / "libcudart-abcdef.so.12");  // as in wheels
    fs::create_hard_link(directory / "libcudart-abcdef.so.12", directory / "libcudart.so.12.0");
    fs::create_symlink("libcudart.so.12.0", directory / name);
    const Exporter exporter;
    const e2e::MapsAsCode mapped(directory / "libcudart-abcdef.so.12");
    exporter.wait_until_attached_to(directory / name);
    const Process program = workload_on(directory.path(), "many_names");
    write_file(directory / "go", "");
    program.wait_for_output("holding");
    libraries_check_counted(exporter, directory.path(), "many_names");
    CHECK(exporter.times_attached_to(directory / name) == 1);
}

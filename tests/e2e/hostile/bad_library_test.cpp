// Files that are named like the CUDA runtime and are none: each is counted, and the exporter and
// its other libraries go on.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/child.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// The exporter's log limits lines about files of one name and one fault: another program's bad
// library must not keep this one's line away.
const std::string bad_library_library = "libcudart.so." + std::to_string(::getpid());
const std::string bad_library_good_library = standin("12/libcudart.so.12");

double bad_library_failures(const Page &page, const std::string &reason) {
    return page.sum("gpusnoop_probe_attach_failures_total",
                    {{"probe", "cuda"}, {"reason", reason}});
}

// A workload on the good library is counted as if there were no bad ones.
void check_good_library_counts(const Exporter &exporter, const std::string &comm = "good") {
    const TemporaryDirectory directory;
    // It holds on: the kernels of a process that is gone too soon have no names.
    Process workload({standin("workload"), "--iterations", "100", "--name", comm, "--hold",
                      "--wait-for-file", directory / "go"},
                     {{"STANDIN_TRUTH_DIR", directory.path().string()}});
    exporter.wait_until_attached_to(bad_library_good_library);
    write_file(directory / "go", "");
    workload.wait_for_output("holding");
    const auto truth = truth::sum(truth::read_truth(directory.path()));
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}},
                                        static_cast<double>(truth.launches));
    check_counters(page, truth, comm);
}

// Bytes of a file, with something done to them.
std::string damaged(const std::string &how) {
    std::string bytes = read_file(bad_library_good_library);
    if (how == "garbage") {
        for (std::size_t i = 0; i < bytes.size(); i++) {
            bytes[i] = static_cast<char>(i * 2654435761U >> 13U);
        }
    } else if (how == "cut in the middle") {
        bytes.resize(bytes.size() / 2);
    } else if (how == "header only") {
        bytes.resize(64);
    } else if (how == "empty") {
        bytes.clear();
    } else if (how == "text") {
        bytes = "INPUT(libcudart.so)\n";
    } else if (how == "section headers nowhere") {
        bytes.replace(40, 8, 8, '\xff');  // e_shoff
    } else if (how == "program headers nowhere") {
        bytes.replace(32, 8, 8, '\xff');  // e_phoff
    } else if (how == "32 bits") {
        bytes[4] = 1;  // EI_CLASS
    }
    return bytes;
}

}  // namespace

TEST_CASE("a file that is no library is counted, and others are attached to", "[e2e]") {
    require_bpf();
    const std::vector<std::string> ways = {"garbage", "header only", "text",
                                           "program headers nowhere", "32 bits"};
    const TemporaryDirectory directory;
    std::vector<std::filesystem::path> files;
    for (const std::string &how : ways) {
        files.push_back(directory / (bad_library_library + std::to_string(files.size())));
        write_file(files.back(), damaged(how));
    }
    std::vector<std::unique_ptr<e2e::MapsAsCode>> users;
    SECTION("when it appears while the exporter runs") {
        const Exporter exporter;
        double before = bad_library_failures(exporter.scrape(), "elf");
        for (std::size_t i = 0; i < ways.size(); i++) {
            CAPTURE(ways[i]);
            users.push_back(std::make_unique<e2e::MapsAsCode>(files[i]));
            eventually("the failure to be counted: " + exporter.log(),
                       [&] { return bad_library_failures(exporter.scrape(), "elf") > before; });
            before++;
            CHECK(bad_library_failures(exporter.scrape(), "elf") == before);
            exporter.wait_for_log("pid=" + std::to_string(users.back()->pid()));
        }
        check_good_library_counts(exporter);

        // The same files again are the same failures, not other ones.
        for (const std::filesystem::path &file : files) {
            users.push_back(std::make_unique<e2e::MapsAsCode>(file));
        }
        check_good_library_counts(exporter, "good_again");
        CHECK(bad_library_failures(exporter.scrape(), "elf") == before);
    }
    SECTION("when it is there before the exporter") {
        for (const std::filesystem::path &file : files) {
            users.push_back(std::make_unique<e2e::MapsAsCode>(file));
        }
        const Exporter exporter;
        eventually("all failures to be counted: " + exporter.log(), [&] {
            return bad_library_failures(exporter.scrape(), "elf") >=
                   static_cast<double>(ways.size());
        });
        check_good_library_counts(exporter);
    }
}

TEST_CASE("another exporter that reads a file does not use it", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    write_file(directory / bad_library_library, damaged("text"));
    const Exporter exporter;
    const double before = bad_library_failures(exporter.scrape(), "elf");
    // As exporter/system/foreign_reader_child.cpp does it.
    const e2e::MapsAsCode reader(directory / bad_library_library, "gpusnoop_reader");
    check_good_library_counts(exporter);
    CHECK(bad_library_failures(exporter.scrape(), "elf") == before);
    const e2e::MapsAsCode user(directory / bad_library_library);
    exporter.wait_for_log("pid=" + std::to_string(user.pid()));
    CHECK(bad_library_failures(exporter.scrape(), "elf") == before + 1);
}

TEST_CASE("a library with none of the functions is counted as that", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    std::filesystem::copy_file("/proc/self/exe", directory / bad_library_library);
    const Exporter exporter;
    const e2e::MapsAsCode mapped(directory / bad_library_library);
    eventually("the failure to be counted: " + exporter.log(),
               [&] { return bad_library_failures(exporter.scrape(), "no_symbols") >= 1; });
    check_good_library_counts(exporter);
}

TEST_CASE("a library whose section headers are gone is still attached to, or counted", "[e2e]") {
    require_bpf();
    const std::string how = GENERATE("cut in the middle", "section headers nowhere");
    CAPTURE(how);
    const TemporaryDirectory directory;
    write_file(directory / bad_library_library, damaged(how));
    const Exporter exporter;
    const e2e::MapsAsCode mapped(directory / bad_library_library);
    eventually("a verdict: " + exporter.log(), [&] {
        return bad_library_failures(exporter.scrape(), "elf") >= 1 ||
               exporter.times_attached_to(directory / bad_library_library) > 0;
    });
    check_good_library_counts(exporter);
}

TEST_CASE("a library that is truncated while it is mapped does not hurt", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    std::filesystem::copy_file(bad_library_good_library, directory / bad_library_library);
    Exporter exporter;
    std::unique_ptr<e2e::MapsAsCode> mapped;
    SECTION("after the exporter attached to it") {
        mapped = std::make_unique<e2e::MapsAsCode>(directory / bad_library_library);
        exporter.wait_until_attached_to(directory / bad_library_library);
        REQUIRE(::truncate((directory / bad_library_library).c_str(), 0) == 0);
    }
    SECTION("again and again while it is looked at") {
        const std::string whole = read_file(bad_library_good_library);
        for (int i = 0; i < 50; i++) {
            // A new file each time, cut to another length a moment after it is mapped.
            std::filesystem::remove(directory / bad_library_library);
            write_file(directory / bad_library_library, whole);
            mapped = std::make_unique<e2e::MapsAsCode>(directory / bad_library_library);
            ::usleep(static_cast<useconds_t>(i) * 500);
            REQUIRE(::truncate((directory / bad_library_library).c_str(), i * 4000) == 0);
        }
    }
    check_good_library_counts(exporter);
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
}

TEST_CASE("a FIFO in the place of a mapped library blocks nobody", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    std::filesystem::copy_file(bad_library_good_library, directory / bad_library_library);
    const e2e::MapsAsCode mapped(directory / bad_library_library);
    std::filesystem::remove(directory / bad_library_library);
    REQUIRE(::mkfifo((directory / bad_library_library).c_str(), 0600) == 0);
    SECTION("with all capabilities, which open the file that is mapped") {
        const Exporter exporter;
        check_good_library_counts(exporter);
    }
    SECTION("with the fewest, which open the path") {
        const Exporter exporter(
            "", {"setpriv", "--bounding-set=-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search"});
        check_good_library_counts(exporter);
    }
}

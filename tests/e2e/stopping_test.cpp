// Detaching takes the kernel long. Nothing waits for it: not the end of the exporter, not new
// libraries.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bpf/processes/mappings.h"
#include "exporter/base/fd.h"
#include "exporter/processes/proc.h"
#include "tests/e2e/child.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

// Generous, as machines are busy, and far below what detaching takes here.
constexpr std::chrono::seconds soon{15};

const std::string stopping_original = standin("12/libcudart.so.12");

std::vector<fs::path> copies_in(const TemporaryDirectory &directory, int count) {
    std::vector<fs::path> copies;
    for (int i = 0; i < count; i++) {
        const fs::path copy = directory / std::to_string(i) / "libcudart.so.12";
        fs::create_directories(copy.parent_path());
        fs::copy_file(stopping_original, copy);
        copies.push_back(copy);
    }
    return copies;
}

// A process that maps them all, as a loader would.
e2e::Child user_of(const std::vector<fs::path> &files) {
    return e2e::Child([files] {
        for (const fs::path &file : files) {
            const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
            if (fd < 0 ||
                ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) {
                return 1;
            }
            ::close(fd);
        }
        e2e::pause_for_ever();
        return 0;
    });
}

// The ids of the BPF links that a process has open. Others on the machine have some of their own.
std::set<std::uint32_t> links_of(pid_t pid) {
    std::set<std::uint32_t> links;
    for (const auto &file : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fdinfo")) {
        std::istringstream lines(read_file(file.path()));
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with("link_id:")) {
                links.insert(static_cast<std::uint32_t>(std::stoul(line.substr(8))));
            }
        }
    }
    return links;
}

// How many of them the kernel still has.
std::size_t left_of(const std::set<std::uint32_t> &links) {
    std::size_t count = 0;
    std::uint32_t id = 0;
    while (::bpf_link_get_next_id(id, &id) == 0) {
        count += links.contains(id) ? 1 : 0;
    }
    return count;
}

void wait_until_attached_to_all(const Exporter &exporter, const std::vector<fs::path> &files) {
    for (const fs::path &file : files) {
        exporter.wait_until_attached_to(file);
    }
}

bool is_free(std::uint16_t port) {
    const gpusnoop::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int one = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::bind(socket.get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0;
}

// A program on this library, which is attached to, is counted to the last call.
void stopping_check_counted(const Exporter &exporter, const fs::path &library,
                            const std::string &comm) {
    const TemporaryDirectory directory;
    const Process workload({standin("workload"), "--iterations", "100", "--name", comm, "--hold"},
                           {{"LD_LIBRARY_PATH", library.parent_path().string()},
                            {"STANDIN_TRUTH_DIR", directory.path().string()}});
    workload.wait_for_output("holding");
    const auto truth = truth::sum(truth::read_truth(directory.path()));
    REQUIRE(truth.launches > 0);
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}},
                                        static_cast<double>(truth.launches));
    check_counters(page, truth, comm);
}

}  // namespace

TEST_CASE("an exporter with many perf events ends soon, and a helper process detaches",
          "[e2e][long][beside]") {
    require_bpf();
    const TemporaryDirectory directory;
    const auto copies = copies_in(directory, 1);
    const e2e::Child user = user_of(copies);
    Exporter exporter(beside_others() + attached_by("perf"));
    wait_until_attached_to_all(exporter, copies);
    const auto links = links_of(exporter.process().pid());
    REQUIRE(links.size() > 100);
    const std::uint16_t port = exporter.port();
    const auto told = std::chrono::steady_clock::now();
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - told;
    WARN("ended after " << took.count() << " s, " << left_of(links) << " links are attached yet");
    CHECK(took < soon);
    CHECK(exporter.log().find("a helper process detaches the probes on perf events") !=
          std::string::npos);
    CHECK(exporter.log().find("the remaining probes") == std::string::npos);
    // Meanwhile the port is free, and another exporter attaches and counts.
    {
        CHECK(is_free(port));
        const Exporter next(beside_others());
        next.wait_until_attached_to(copies[0]);
        stopping_check_counted(next, copies[0], "next");
    }
    eventually("all to be detached", [&] { return left_of(links) == 0; }, std::chrono::minutes(4));
}

TEST_CASE("new libraries are attached to while many are being let go, and the end is soon",
          "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const TemporaryDirectory others;
    const auto copies = copies_in(directory, 300);
    const auto new_one = copies_in(others, 1);
    Exporter exporter("discovery: {rescan_interval: 1s, keep: 0s}\n" + attached_by("multi"));
    {
        const e2e::Child user = user_of(copies);
        wait_until_attached_to_all(exporter, copies);
    }
    eventually("the first to be let go", [&] {
        return std::ranges::any_of(copies, [&](const fs::path &copy) {
            return exporter.times_said_of(copy, "detached: no process uses it") > 0;
        });
    });
    const auto began = std::chrono::steady_clock::now();
    const e2e::Child user = user_of(new_one);
    exporter.wait_until_attached_to(new_one[0]);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    WARN("attached after " << took.count() << " s");
    CHECK(took < soon);
    const auto links = links_of(exporter.process().pid());
    const auto told = std::chrono::steady_clock::now();
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
    const std::chrono::duration<double> end = std::chrono::steady_clock::now() - told;
    WARN("ended after " << end.count() << " s");
    CHECK(end < soon);
    eventually("all to be detached", [&] { return left_of(links) == 0; });
}

TEST_CASE("an exporter ends without the process that starts its readers if that is stuck",
          "[e2e]") {
    require_bpf();
    Exporter exporter;
    const auto pid = static_cast<std::uint32_t>(exporter.process().pid());
    pid_t starter = 0;
    for (const std::uint32_t other : gpusnoop::processes::all_processes()) {
        if (gpusnoop::processes::parent_of(other) == pid &&
            gpusnoop::processes::name_of(other) == FOREIGN_READER) {
            starter = static_cast<pid_t>(other);
        }
    }
    REQUIRE(starter != 0);
    REQUIRE(::kill(starter, SIGSTOP) == 0);
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
    ::kill(starter, SIGKILL);
}

TEST_CASE("an exporter that uses many libraries ends soon", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const auto copies = copies_in(directory, 300);
    const e2e::Child user = user_of(copies);
    Exporter exporter(attached_by("multi"));
    wait_until_attached_to_all(exporter, copies);
    const auto links = links_of(exporter.process().pid());
    const auto told = std::chrono::steady_clock::now();
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - told;
    WARN("ended after " << took.count() << " s");
    CHECK(took < soon);
    eventually("all to be detached", [&] { return left_of(links) == 0; });
}

TEST_CASE("a library that is used again during detaching is counted at once, each call once",
          "[e2e][long][beside]") {
    require_bpf();
    const TemporaryDirectory directory;
    const auto copies = copies_in(directory, 1);
    Exporter exporter(beside_others("rescan_interval: 1s, keep: 0s, ") + attached_by("perf"));
    for (const std::size_t use : {1U, 2U}) {
        CAPTURE(use);
        // Attached to already when the program is there, the second time.
        eventually("what was used before to be let go", [&] {
            return exporter.times_said_of(copies[0], "detached: no process uses it") + 1 >= use;
        });
        const e2e::Child user = user_of(copies);
        eventually("it to be attached to",
                   [&] { return exporter.times_attached_to(copies[0]) >= use; });
        stopping_check_counted(exporter, copies[0], "use_" + std::to_string(use));
        const Page page = exporter.scrape();
        CHECK(page.sum("gpusnoop_probe_stale_calls_total") == 0);
        CHECK(page.sum("gpusnoop_probe_nested_calls_total") == 0);
    }
}

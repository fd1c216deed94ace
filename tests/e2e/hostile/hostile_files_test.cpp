// Files whose owners want to keep discovery busy or waiting: other processes are not the worse for
// it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/processes/proc.h"
#include "tests/e2e/child.h"
#include "tests/e2e/hostile/hostile.h"
#include "tests/harness/counting.h"
#include "tests/harness/exporter.h"
#include "tests/harness/machine/open_files.h"

using namespace harness;

namespace {

const std::string hostile_files_library = "libcudart.so.12";

// Another program's copy of the library is found, and in time.
void hostile_files_check_others_are_found(const Exporter &exporter) {
    const TemporaryDirectory directory;
    std::filesystem::copy_file(standin("12/libcudart.so.12"), directory / hostile_files_library);
    const e2e::MapsAsCode mapped(directory / hostile_files_library);
    exporter.wait_until_attached_to(directory / hostile_files_library);
}

// Maps a file as code and has a write lease on it.
class HoldsLease {
public:
    explicit HoldsLease(const std::filesystem::path &file)
        : child_([&, file] {
              const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
              ::signal(SIGIO, SIG_IGN);
              if (::fcntl(fd, F_SETLEASE, F_WRLCK) != 0 ||
                  ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) {
                  return 1;
              }
              write_file(directory_ / "leased", "");
              e2e::pause_for_ever();
          }) {
        eventually("the lease", [&] { return std::filesystem::exists(directory_ / "leased"); });
    }

private:
    TemporaryDirectory directory_;
    e2e::Child child_;
};

}  // namespace

TEST_CASE("a user with more libraries than others need has a limit", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    std::vector<std::filesystem::path> files;
    for (int i = 0; i < 530; i++) {
        files.push_back(directory / std::to_string(i) / hostile_files_library);
        std::filesystem::create_directory(files.back().parent_path());
        std::filesystem::copy_file(standin("12/libcudart.so.12"), files.back());
    }
    const Exporter exporter("discovery: {rescan_interval: 1s}\n");
    const e2e::Child user([&]() -> int {
        e2e::map_as_nobody(files, directory / "mapped");
        e2e::pause_for_ever();
    });
    exporter.wait_for_log("512 files of processes of its user are attached to already");
    const auto attached = [&] {
        return std::ranges::count_if(
            files, [&](const auto &file) { return exporter.times_attached_to(file) != 0; });
    };
    // The 512th is its program, if that was not the last one to be opened.
    eventually("those within the limit to be attached to", [&] { return attached() >= 511; });
    CHECK(attached() <= 512);
    hostile_files_check_others_are_found(exporter);
}

// To close the last one of a huge file takes the kernel minutes, which no signal ends.
TEST_CASE("a deleted library is not closed last by the exporter, nor by its end", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const auto library = directory / hostile_files_library;
    std::filesystem::copy_file(standin("12/libcudart.so.12"), library);
    struct stat status{};
    REQUIRE(::stat(library.c_str(), &status) == 0);
    auto user = std::make_unique<e2e::MapsAsCode>(library);
    Exporter exporter("discovery: {rescan_interval: 1s, keep: 0s}\n");
    exporter.wait_until_attached_to(library);
    // Other exporters, of tests beside this one, may have it open, too.
    const auto keeper = [&]() -> pid_t {
        for (const pid_t pid : processes_that_have_open(status)) {
            const auto starter = gpusnoop::processes::parent_of(static_cast<std::uint32_t>(pid));
            if (starter && gpusnoop::processes::parent_of(*starter) ==
                               static_cast<std::uint32_t>(exporter.process().pid())) {
                return pid;
            }
        }
        return 0;
    };
    const auto has_open = [&](pid_t pid) {
        return std::ranges::count(processes_that_have_open(status), pid) == 1;
    };
    eventually("another process to keep it open", [&] { return keeper() != 0; });
    const pid_t pid = keeper();
    {
        const StoppedProcess stopped(pid);
        std::filesystem::remove(library);
        SECTION("when nobody uses it any more") {
            user.reset();
            eventually("it to be closed", [&] { return !has_open(exporter.process().pid()); });
            CHECK(has_open(pid));
        }
        SECTION("when a process uses it") {}
        exporter.process().signal(SIGTERM);
        CHECK(exporter.process().wait() == 0);
        CHECK(has_open(pid));
    }
    eventually("it to be closed for good", [&] { return !has_open(pid); });
}

TEST_CASE("a lease on a library keeps nobody else waiting", "[e2e][long]") {
    require_bpf();
    const TemporaryDirectory directory;
    std::filesystem::copy_file(standin("12/libcudart.so.12"), directory / hostile_files_library);
    auto lease = std::make_unique<HoldsLease>(directory / hostile_files_library);
    Exporter exporter;
    hostile_files_check_others_are_found(exporter);
    CHECK(exporter.log().find("a process holds a lease on ") != std::string::npos);
    CHECK(exporter.times_attached_to(directory / hostile_files_library) == 0);
    // Without it, the library is attached to.
    lease.reset();
    const e2e::MapsAsCode mapped(directory / hostile_files_library);
    exporter.wait_until_attached_to(directory / hostile_files_library);
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
}

TEST_CASE("files that are no libraries take no descriptors, and do not fill the log", "[e2e]") {
    require_bpf();
    constexpr int processes = 4;
    constexpr int files = 100;
    const TemporaryDirectory directory;
    for (int i = 0; i < processes * files; i++) {
        const auto place = directory / std::to_string(i);
        std::filesystem::create_directory(place);
        write_file(place / hostile_files_library, "no library " + std::to_string(i));
    }
    const Exporter exporter("discovery: {rescan_interval: 2s}\n");
    std::vector<std::unique_ptr<e2e::Child>> children;
    for (int process = 0; process < processes; process++) {
        children.push_back(std::make_unique<e2e::Child>([&, process]() -> int {
            for (int i = 0; i < files; i++) {
                const auto file =
                    directory / std::to_string(process * files + i) / hostile_files_library;
                const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
                (void)::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
                ::close(fd);
            }
            e2e::pause_for_ever();
        }));
    }
    const auto refused = [&](const Page &page) {
        return page.sum("gpusnoop_probe_attach_failures_total",
                        {{"probe", "cuda"}, {"reason", "elf"}});
    };
    eventually("all of them to be refused: " + exporter.log(),
               [&] { return refused(exporter.scrape()) >= processes * files; });
    hostile_files_check_others_are_found(exporter);
    const Page page = exporter.scrape();
    CHECK(refused(page) == processes * files);
    CHECK(page.sum("process_open_fds") < 200);
    const std::string log = exporter.log();
    CHECK(std::ranges::count(log, '\n') < 100);

    // One of them becomes a library.
    const auto mended = directory / "0" / hostile_files_library;
    std::filesystem::copy_file(standin("12/libcudart.so.12"), mended,
                               std::filesystem::copy_options::overwrite_existing);
    exporter.wait_until_attached_to(mended);
}

TEST_CASE("libraries that take long to read keep no other user's waiting", "[e2e]") {
    require_bpf();
    constexpr int files = 12;  // more than the user's share of time is enough for at once
    constexpr std::uint64_t symbols = 9'900'000;
    const TemporaryDirectory directory;
    for (int i = 0; i < files; i++) {
        const auto place = directory / std::to_string(i);
        std::filesystem::create_directory(place);
        e2e::make_sparse_library(place / hostile_files_library, symbols);
    }
    const Exporter exporter;
    std::vector<std::filesystem::path> libraries;
    for (int i = 0; i < files; i++) {
        libraries.push_back(directory / std::to_string(i) / hostile_files_library);
    }
    const e2e::Child user([&]() -> int {
        e2e::map_as_nobody(libraries, directory / "maps");
        e2e::pause_for_ever();
    });
    eventually("the files to be mapped",
               [&] { return std::filesystem::exists(directory / "maps"); });
    ::usleep(100'000);
    hostile_files_check_others_are_found(exporter);
    const auto looked_at = [&] {
        std::size_t attached = 0;
        for (int i = 0; i < files; i++) {
            attached +=
                exporter.times_attached_to(directory / std::to_string(i) / hostile_files_library);
        }
        return number(attached) +
               exporter.scrape().sum("gpusnoop_probe_attach_failures_total", {{"probe", "cuda"}});
    };
    CHECK(looked_at() < files);
    eventually("all of them to be looked at: " + exporter.log(),
               [&] { return looked_at() >= files; });
}

TEST_CASE("processes with very many mappings keep no other user's libraries waiting", "[e2e]") {
    require_bpf();
    const Exporter exporter("discovery: {rescan_interval: 1h}\n");
    const e2e::MapsAllTheTime first;
    const e2e::MapsAllTheTime second;
    hostile_files_check_others_are_found(exporter);
}

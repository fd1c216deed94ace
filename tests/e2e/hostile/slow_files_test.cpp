// Files on a file system that does not answer: nobody but the processes that use them is the worse
// for it.
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "exporter/discovery/gpus/gpu_lookup.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/processes/file_opener.h"
#include "exporter/processes/mapping_reader.h"
#include "exporter/system/foreign_reader.h"
#include "tests/e2e/child.h"
#include "tests/e2e/hostile/hostile.h"
#include "tests/harness/exporter.h"
#include "tests/harness/gpu_node.h"
#include "tests/harness/machine/hanging_file_system.h"

using namespace harness;

namespace {

const std::string slow_files_library = "libcudart.so.12";
const std::string slow_files_good_library = standin("12/libcudart.so.12");

double slow_files_failures(const Page &page, const std::string &reason) {
    return page.sum("gpusnoop_probe_attach_failures_total",
                    {{"probe", "cuda"}, {"reason", reason}});
}

// Another program's copy of the library is found, and in time.
void slow_files_check_others_are_found(const Exporter &exporter) {
    const TemporaryDirectory directory;
    std::filesystem::copy_file(slow_files_good_library, directory / slow_files_library);
    const e2e::MapsAsCode mapped(directory / slow_files_library);
    exporter.wait_until_attached_to(directory / slow_files_library);
}

void check_it_ends(Exporter &exporter) {
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
}

}  // namespace

TEST_CASE("a library on a file system that does not answer keeps nobody else waiting", "[e2e]") {
    require_bpf();
    // Ends after the file system, for which its end would wait.
    std::unique_ptr<e2e::Child> user;
    const HangingFileSystem files(slow_files_library, slow_files_good_library);
    user = std::make_unique<e2e::Child>([&]() -> int {
        // It is asked for before the file system hangs.
        const int fd = ::open(files.file().c_str(), O_RDONLY | O_CLOEXEC);
        ::kill(::getpid(), SIGSTOP);
        (void)::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        e2e::pause_for_ever();
    });
    ::usleep(300'000);
    SECTION("when it is there before the exporter") {
        user->signal(SIGCONT);
        ::usleep(100'000);
        files.hang();
        Exporter exporter;
        slow_files_check_others_are_found(exporter);
        eventually("the failure to be counted: " + exporter.log(),
                   [&] { return slow_files_failures(exporter.scrape(), "slow") >= 1; });
        CHECK(exporter.scrape().sum("gpusnoop_discovery_slow_files") >= 1);
        exporter.wait_for_log("does not answer");
        slow_files_check_others_are_found(exporter);
        check_it_ends(exporter);
    }
    SECTION("when it appears while the exporter runs") {
        Exporter exporter;
        files.hang();
        user->signal(SIGCONT);
        slow_files_check_others_are_found(exporter);
        eventually("the failure to be counted: " + exporter.log(),
                   [&] { return slow_files_failures(exporter.scrape(), "slow") >= 1; });
        slow_files_check_others_are_found(exporter);
        exporter.process().signal(SIGHUP);
        exporter.process().wait_for_output("configuration reloaded");
        check_it_ends(exporter);
    }
}

TEST_CASE("a process that keeps its mappings locked keeps nobody else waiting", "[e2e]") {
    require_bpf();
    const e2e::LocksItsMappings user;
    const std::string settings = "discovery: {rescan_interval: 1s}\n";
    SECTION("when it does so before the exporter starts") {
        user.lock();
        Exporter exporter(settings);
        slow_files_check_others_are_found(exporter);
        exporter.wait_for_log("keep their mappings locked");
        CHECK(exporter.scrape().sum("gpusnoop_discovery_unreadable_processes") == 1);
        check_it_ends(exporter);
    }
    SECTION("when it does so while the exporter runs") {
        Exporter exporter(settings);
        user.lock();
        ::sleep(2);
        slow_files_check_others_are_found(exporter);
        slow_files_check_others_are_found(exporter);
        check_it_ends(exporter);
    }
}

TEST_CASE("a process that keeps its mappings locked takes the GPUs of no others", "[e2e]") {
    require_bpf();
    const e2e::LocksItsMappings user;
    user.lock();
    std::vector<gpusnoop::discovery::Gpu> gpus(2);
    for (unsigned index = 0; index < 2; index++) {
        gpus[index].index = index;
        gpus[index].minor = 200 + static_cast<int>(index);
        gpus[index].name = "NVIDIA H200";
    }
    gpusnoop::discovery::GpuLookup lookup(gpus, std::chrono::milliseconds(50));
    const auto second_gpu_of = [&](pid_t pid) {
        const auto visible = lookup.of(static_cast<std::uint32_t>(pid));
        return visible ? visible->host_index(1) : std::nullopt;
    };
    for (int i = 0; i < 20; i++) {
        CHECK_FALSE(second_gpu_of(user.pid()));
    }
    CHECK(second_gpu_of(::getpid()) == 1);
}

TEST_CASE("a library on a file system in user space is attached to", "[e2e]") {
    require_bpf();
    // Ends after the file system, for which its end would wait.
    std::unique_ptr<e2e::MapsAsCode> mapped;
    const HangingFileSystem files(slow_files_library, slow_files_good_library);
    Exporter exporter;
    mapped = std::make_unique<e2e::MapsAsCode>(files.file());
    exporter.wait_until_attached_to(files.file());
    files.hang();
    // Nothing of it stays open that would have to be closed.
    check_it_ends(exporter);
}

TEST_CASE("paths of one user that do not answer cost few children, and others none", "[e2e]") {
    require_bpf();
    auto list = gpusnoop::ebpf::MappingList::open();
    REQUIRE(list.has_value());
    const HangingFileSystem files(slow_files_library, slow_files_good_library);
    files.hang();
    gpusnoop::processes::FileOpener opener(**list);
    // Of a file in memory, to which the kernel's own link does not lead any more.
    gpusnoop::ebpf::Mapping mapping{};
    mapping.tgid = mapping.tid = static_cast<std::uint32_t>(::getpid());
    mapping.name = slow_files_library;
    mapping.file_system = TMPFS_MAGIC;
    for (int i = 0; i < 10; i++) {
        const auto opened =
            opener.open(mapping, files.file().string(), gpusnoop::ForeignReader::Part::symbols);
        REQUIRE_FALSE(opened.has_value());
        CHECK(opened.error().code == ETIMEDOUT);
    }
    CHECK(opener.stuck() == 8);
    gpusnoop::ebpf::Mapping copied = mapping;
    copied.is_mounted_by_user = true;
    CHECK(opener.is_blocked(copied));
    // The kernel's own link still leads to files, also for this user.
    const e2e::MapsAsCode mapped(slow_files_good_library);
    const auto mappings =
        gpusnoop::processes::MappingReader(**list).read(static_cast<std::uint32_t>(mapped.pid()));
    REQUIRE(mappings.has_value());
    const auto good = std::ranges::find_if(
        *mappings, [](const auto &one) { return one.name.starts_with("libcudart.so"); });
    REQUIRE(good != mappings->end());
    CHECK(opener.open(*good, std::string(), gpusnoop::ForeignReader::Part::symbols).has_value());
    // Files of other users are copied.
    const TemporaryDirectory directory;
    const e2e::Child other([&]() -> int {
        e2e::map_as_nobody({slow_files_good_library}, directory / "maps");
        e2e::pause_for_ever();
    });
    copied.tgid = static_cast<std::uint32_t>(other.pid());
    eventually("the process to be another user's", [&] { return !opener.is_blocked(copied); });
}

TEST_CASE("files of one user that are copied slowly leave a child for others", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    e2e::make_sparse_library(directory / "large", 2'000'000);  // minutes of reading
    std::unique_ptr<e2e::Child> user;  // ends after the file systems, for which its end would wait
    std::unique_ptr<e2e::MapsAsCode> other;
    const HangingFileSystem first(slow_files_library, directory / "large", e2e::nobody);
    const HangingFileSystem second(slow_files_library, directory / "large", e2e::nobody);
    const HangingFileSystem good(slow_files_library, slow_files_good_library);
    first.slow_down();
    second.slow_down();
    Exporter exporter;
    user = std::make_unique<e2e::Child>([&]() -> int {
        e2e::map_as_nobody({first.file(), second.file()}, directory / "maps");
        e2e::pause_for_ever();
    });
    eventually("the files to be mapped",
               [&] { return std::filesystem::exists(directory / "maps"); });
    ::sleep(1);  // both are being copied, if they may be
    other = std::make_unique<e2e::MapsAsCode>(good.file());
    exporter.wait_until_attached_to(good.file());
    // Neither has been given up yet, which takes half a minute.
    CHECK(slow_files_failures(exporter.scrape(), "slow") == 0);
    check_it_ends(exporter);
}

TEST_CASE("a driver that does not answer delays the exporter's start by seconds", "[e2e]") {
    require_bpf();
    const GpuNode node(2);
    const auto information = node.information(1);
    const HangingFileSystem files("information", information);
    // The kernel follows the link to the directory as to one of the driver's.
    std::filesystem::remove_all(information.parent_path());
    std::filesystem::create_directory_symlink(files.file().parent_path(),
                                              information.parent_path());
    files.hang();
    Exporter exporter(node.config());
    exporter.wait_for_log("the NVIDIA driver does not answer");
    slow_files_check_others_are_found(exporter);
    CHECK(exporter.scrape().samples("gpusnoop_gpu_info").size() == 2);
    check_it_ends(exporter);
}

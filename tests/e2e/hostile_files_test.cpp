// Files whose owners want to keep discovery busy or waiting: other processes are not the worse for
// it.
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "tests/e2e/child.h"
#include "tests/harness/counting.h"
#include "tests/harness/exporter.h"

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

// A copy of the library that takes no more room on the disk, but has a table of that many symbols
// without names.
void make_sparse_library(const std::filesystem::path &path, std::uint64_t symbols) {
    constexpr std::uint64_t page = 4096;
    std::string bytes = read_file(standin("12/libcudart.so.12"));
    Elf64_Ehdr header{};
    std::memcpy(&header, bytes.data(), sizeof(header));
    std::vector<Elf64_Shdr> sections(header.e_shnum);
    std::memcpy(sections.data(), bytes.data() + header.e_shoff,
                sections.size() * sizeof(Elf64_Shdr));
    std::erase_if(sections, [](const auto &one) { return one.sh_type == SHT_SYMTAB; });
    Elf64_Shdr names{};
    names.sh_type = SHT_STRTAB;
    names.sh_offset = bytes.size();
    names.sh_size = page;
    bytes.resize((bytes.size() + 2 * page) / page * page);
    Elf64_Shdr table{};
    table.sh_type = SHT_SYMTAB;
    table.sh_offset = bytes.size();
    table.sh_size = symbols * sizeof(Elf64_Sym);
    table.sh_entsize = sizeof(Elf64_Sym);
    table.sh_link = static_cast<Elf64_Word>(sections.size());
    sections.push_back(names);
    sections.push_back(table);
    header.e_shoff = table.sh_offset + table.sh_size;
    header.e_shnum = static_cast<Elf64_Half>(sections.size());
    header.e_shstrndx = SHN_UNDEF;
    std::memcpy(bytes.data(), &header, sizeof(header));
    const gpusnoop::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0755));
    const auto write = [&](const void *data, std::size_t size, std::uint64_t at) {
        REQUIRE(::pwrite(file.get(), data, size, static_cast<off_t>(at)) ==
                static_cast<ssize_t>(size));
    };
    write(bytes.data(), bytes.size(), 0);
    write(sections.data(), sections.size() * sizeof(Elf64_Shdr), header.e_shoff);
}

}  // namespace

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
    constexpr int files = 24;
    constexpr std::uint64_t symbols = 9'900'000;
    const TemporaryDirectory directory;
    for (int i = 0; i < files; i++) {
        const auto place = directory / std::to_string(i);
        std::filesystem::create_directory(place);
        make_sparse_library(place / hostile_files_library, symbols);
    }
    const Exporter exporter;
    const e2e::Child user([&]() -> int {
        std::vector<int> opened;
        for (int i = 0; i < files; i++) {
            const auto file = directory / std::to_string(i) / hostile_files_library;
            opened.push_back(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
        }
        write_file(directory / "maps", "");
        if (::setresuid(65534, 65534, 65534) != 0) {
            return 1;
        }
        for (const int fd : opened) {
            (void)::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        }
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

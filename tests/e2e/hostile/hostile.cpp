#include "tests/e2e/hostile/hostile.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "exporter/base/fd.h"
#include "tests/harness/exporter.h"

namespace e2e {

namespace {

const std::string runtime = harness::standin("12/libcudart.so.12");

// Unmapping a page that it has changed waits for the file system, with the lock of its mappings;
// and what else wants to map something keeps others from reading them.
[[noreturn]] void keep_mappings_locked(void *changed, std::size_t bytes) {
    std::thread([=] { ::munmap(changed, bytes); }).detach();
    ::usleep(200'000);
    (void)::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pause_for_ever();
}

std::filesystem::path write_slow_map(const harness::TemporaryDirectory &directory) {
    std::string lines;
    while (lines.size() < (std::size_t{6} << 20U)) {
        lines += "1000 10 nothing_of_this_program\n";
    }
    harness::write_file(directory / "map", lines);
    return directory / "map";
}

}  // namespace

void make_sparse(const std::filesystem::path &original, const std::filesystem::path &path,
                 std::uint64_t symbols) {
    constexpr std::uint64_t page = 4096;
    std::string bytes = harness::read_file(original);
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
    REQUIRE(::fchown(file.get(), nobody, nobody) == 0);  // root's files may take longer to read
}

void make_sparse_library(const std::filesystem::path &path, std::uint64_t symbols) {
    make_sparse(runtime, path, symbols);
}

void map_as_nobody(const std::vector<std::filesystem::path> &files,
                   const std::filesystem::path &mapped) {
    std::vector<int> opened;
    for (const auto &file : files) {
        opened.push_back(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    }
    harness::write_file(mapped, "");
    if (::setresuid(nobody, nobody, nobody) != 0) {
        ::_exit(1);
    }
    for (const int fd : opened) {
        (void)::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    }
}

LocksItsMappings::LocksItsMappings(std::vector<std::filesystem::path> also_maps)
    : also_maps_(std::move(also_maps)),
      files_(std::make_unique<harness::HangingFileSystem>("data", runtime)) {
    user_ = std::make_unique<Child>([this] { return run(); });
    harness::eventually("the page to be changed",
                        [&] { return std::filesystem::exists(directory_ / "changed"); });
}

void LocksItsMappings::lock() const {
    files_->hang();
    harness::write_file(directory_ / "hangs", "");
    ::usleep(600'000);
}

int LocksItsMappings::run() const {
    constexpr std::size_t page = 4096;
    const int fd = ::open(files_->file().c_str(), O_RDWR | O_CLOEXEC);
    const int name = ::open("/proc/self/comm", O_WRONLY | O_CLOEXEC);
    void *const changed = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (changed == MAP_FAILED || name < 0) {
        return 1;
    }
    for (const auto &path : also_maps_) {
        const int other = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (::mmap(nullptr, page, PROT_READ, MAP_PRIVATE, other, 0) == MAP_FAILED) {
            return 1;
        }
    }
    *static_cast<volatile char *>(changed) = 1;
    harness::write_file(directory_ / "changed", "");
    wait_for_file(directory_ / "hangs");
    if (::setresuid(nobody, nobody, nobody) != 0) {
        return 1;
    }
    std::thread([name] {
        ::usleep(400'000);
        (void)!::write(name, "locker", 6);
        pause_for_ever();
    }).detach();
    keep_mappings_locked(changed, page);
}

MapsAllTheTime::MapsAllTheTime() {
    std::filesystem::copy_file(runtime, directory_ / "libcudart.so.12");
    user_ = std::make_unique<Child>([this] { return run(); });
    harness::eventually("the mappings",
                        [&] { return std::filesystem::exists(directory_ / "mapped"); });
}

int MapsAllTheTime::run() const {
    constexpr std::size_t page = 4096;
    constexpr int mappings = 60'000;
    const int fd = ::open((directory_ / "libcudart.so.12").c_str(), O_RDONLY | O_CLOEXEC);
    const auto map = [&] {
        return ::mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    };
    for (int i = 0; i < mappings; i++) {
        if (map() == MAP_FAILED) {
            return 1;
        }
    }
    harness::write_file(directory_ / "mapped", "");
    if (::setresuid(nobody, nobody, nobody) != 0) {
        return 1;
    }
    for (;;) {
        ::munmap(map(), page);
        ::usleep(5'000);
    }
}

LaunchesAtAnyAddress::LaunchesAtAnyAddress() {
    const auto program = directory_ / "addresses";
    make_sparse(harness::standin("addresses"), program, 9'000'000);
    // The checkout may be in a folder of root's, which this user cannot enter.
    harness::copy_cuda_libraries(directory_.path());
    std::filesystem::permissions(directory_.path(), std::filesystem::perms(0755));
    program_ = std::make_unique<harness::Process>(
        std::vector<std::string>{"setpriv", "--reuid=65534", program.string(), "addresses"},
        harness::Process::Environment{{"LD_LIBRARY_PATH", directory_.path().string()}});
    program_->wait_for_output("launching");
}

HasPythons::HasPythons() {
    std::vector<std::filesystem::path> libraries;
    for (int i = 0; i < 20; i++) {
        libraries.push_back(directory_ / ("libpython3.1" + std::to_string(i) + ".so"));
        make_sparse_library(libraries.back(), 9'900'000);
    }
    user_ = std::make_unique<Child>([this, libraries]() -> int {
        map_as_nobody(libraries, directory_ / "mapped");
        ::prctl(PR_SET_NAME, "pythons");
        for (;;) {
            asm volatile("");  // a loop without an effect may be taken out
        }
    });
    harness::eventually("the libraries to be mapped",
                        [&] { return std::filesystem::exists(directory_ / "mapped"); });
}

HasSlowMap::HasSlowMap()
    : files_("map", write_slow_map(directory_), nobody),
      program_({"setpriv", "--reuid=65534", harness::standin("stacks"), "made", "100000"}),
      path_("/tmp/perf-" + std::to_string(program_.pid()) + ".map") {
    program_.wait_for_output("waiting");
    program_.signal(SIGUSR1);
    harness::eventually("its map", [&] { return std::filesystem::exists(path_); });
    std::filesystem::remove(path_);
    std::filesystem::create_symlink(files_.file(), path_);
    files_.slow_down();
}

HasSlowMap::~HasSlowMap() {
    std::filesystem::remove(path_);
}

}  // namespace e2e

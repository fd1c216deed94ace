// What the kernel says of mappings, against a mapping that the test makes itself.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bpf/processes/mappings.h"
#include "exporter/base/file_id.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/ebpf/mappings/mmap_events.h"
#include "exporter/processes/file_opener.h"
#include "exporter/processes/mapping_reader.h"
#include "exporter/processes/open_mapped.h"
#include "exporter/symbols/stacks/mapped_files.h"
#include "exporter/system/foreign_reader.h"
#include "exporter/system/machine.h"
#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/no_perf_events.h"
#include "tests/harness/process.h"
#include "tests/unit/child_process.h"

using namespace gpusnoop;
using namespace harness;

namespace {

// The second page of a file of three, mapped executable.
struct Mapped {
    TemporaryDirectory directory;
    std::filesystem::path path = directory / "libmapped.so.7";
    Fd fd;
    std::size_t page = static_cast<std::size_t>(::getpagesize());
    void *address = nullptr;

    Mapped() {
        write_file(path, std::string(3 * page, 'x'));
        fd = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    }
    ~Mapped() { ::munmap(address, page); }
    Mapped(const Mapped &) = delete;
    Mapped &operator=(const Mapped &) = delete;

    void map() {
        address = ::mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(),
                         static_cast<off_t>(page));
        REQUIRE(address != MAP_FAILED);
    }
};

// The same file so many times, in this process and in others.
class ManyMappings {
public:
    explicit ManyMappings(std::size_t count) {
        for (std::size_t i = 0; i < count; i++) {
            file_.map();
            addresses_.push_back(file_.address);
        }
    }
    ~ManyMappings() {
        for (const pid_t child : children_) {
            ::kill(child, SIGKILL);
            ::waitpid(child, nullptr, 0);
        }
        for (void *const address : addresses_) {
            ::munmap(address, file_.page);
        }
    }
    ManyMappings(const ManyMappings &) = delete;
    ManyMappings &operator=(const ManyMappings &) = delete;

    void fork(int count) {
        for (int i = 0; i < count; i++) {
            const pid_t child = ::fork();
            if (child == 0) {
                ::prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;) {
                    ::pause();
                }
            }
            REQUIRE(child > 0);
            children_.push_back(child);
        }
    }

private:
    Mapped file_;
    std::vector<void *> addresses_;
    std::vector<pid_t> children_;
};

std::uint32_t own_pid() {
    return static_cast<std::uint32_t>(::getpid());
}

}  // namespace

TEST_CASE("an executable mapping is listed with its file, offset and name", "[kernel]") {
    require_bpf();
    auto list = ebpf::MappingList::open();
    REQUIRE(list.has_value());
    processes::MappingReader reader(**list);
    Mapped mapped;
    mapped.map();
    for (const auto of : {std::optional(own_pid()), std::optional<std::uint32_t>()}) {
        const auto all = of ? reader.read(*of) : reader.read_all();
        REQUIRE(all.has_value());
        CHECK_FALSE(reader.unread().contains(own_pid()));
        const auto found = std::ranges::find_if(*all, [&](const ebpf::Mapping &one) {
            return one.tgid == own_pid() &&
                   one.start == reinterpret_cast<std::uint64_t>(mapped.address);
        });
        REQUIRE(found != all->end());
        CHECK(found->end == found->start + mapped.page);
        CHECK(found->file_offset == mapped.page);
        CHECK(found->name == "libmapped.so.7");
        struct stat status{};
        REQUIRE(::fstat(mapped.fd.get(), &status) == 0);
        CHECK(found->file.inode == status.st_ino);
        CHECK(found->file.device == ((major(status.st_dev) << 20) | minor(status.st_dev)));
        CHECK((*list)->identify(mapped.fd.get()) == found->file);
        CHECK(std::ranges::count_if(*all, [&](const ebpf::Mapping &one) {
                  return one.tgid == own_pid() && one.start == found->start;
              }) == 1);
    }
}

TEST_CASE("of a process or a user with very many mappings, not all are listed", "[kernel]") {
    require_bpf();
    constexpr std::size_t most_of_process = MAPPINGS_OF_PROCESS;
    constexpr std::size_t most_of_user = 65'536;
    constexpr std::size_t always = 512;  // of each process
    auto list = ebpf::MappingList::open();
    REQUIRE(list.has_value());
    processes::MappingReader reader(**list);
    ManyMappings mapped(20'000);
    const auto own = reader.read(own_pid());
    REQUIRE(own.has_value());
    CHECK(own->size() == most_of_process);
    CHECK(reader.read(own_pid())->size() == most_of_process);  // not what is left

    mapped.fork(9);
    const auto all = reader.read_all();
    REQUIRE(all.has_value());
    const auto found =
        static_cast<std::size_t>(std::ranges::count(*all, "libmapped.so.7", &ebpf::Mapping::name));
    CHECK(found <= most_of_user + 10 * always);
    CHECK(found > most_of_user);
    // Nobody may conclude from that what they do not map.
    CHECK(reader.unread().contains(own_pid()));
    CHECK(reader.unread().size() >= 10);
    CHECK_FALSE(reader.unread().contains(1));
}

TEST_CASE("a process whose first thread has ended is listed once", "[kernel]") {
    require_bpf();
    auto list = ebpf::MappingList::open();
    REQUIRE(list.has_value());
    processes::MappingReader reader(**list);
    Mapped mapped;
    mapped.map();
    const test::ChildProcess process([](const auto &tell) {
        for (int i = 0; i < 5; i++) {
            std::thread(test::ChildProcess::wait_for_death).detach();
        }
        tell({});
        ::syscall(SYS_exit, 0);  // of this thread
    });
    eventually("the first thread to end", [&] {
        return read_file("/proc/" + std::to_string(process.tgid()) + "/stat").find(") Z ") !=
               std::string::npos;
    });
    for (const bool is_alone : {true, false}) {
        const auto all = is_alone ? reader.read(process.tgid()) : reader.read_all();
        REQUIRE(all.has_value());
        CHECK(std::ranges::count_if(*all, [&](const ebpf::Mapping &one) {
                  return one.tgid == process.tgid() &&
                         one.start == reinterpret_cast<std::uint64_t>(mapped.address);
              }) == 1);
    }
}

TEST_CASE("a process that is gone has no mappings", "[kernel]") {
    require_bpf();
    auto list = ebpf::MappingList::open();
    REQUIRE(list.has_value());
    Process brief({"true"});
    const auto pid = static_cast<std::uint32_t>(brief.pid());
    brief.wait();
    const auto none = processes::MappingReader(**list).read(pid);
    REQUIRE(none.has_value());
    CHECK(none->empty());
}

TEST_CASE("a mapped file is opened even after its path was replaced", "[kernel]") {
    require_bpf();
    auto list = ebpf::MappingList::open();
    REQUIRE(list.has_value());
    Mapped mapped;
    mapped.map();
    processes::MappingReader reader(**list);
    const auto all = reader.read(own_pid());
    REQUIRE(all.has_value());
    const auto found = std::ranges::find(*all, "libmapped.so.7", &ebpf::Mapping::name);
    REQUIRE(found != all->end());
    std::filesystem::remove(mapped.path);
    write_file(mapped.path, "another file");

    const auto opened = processes::open_mapped(*found, reader.path_of(*found), **list);
    REQUIRE(opened.has_value());
    struct stat status{};
    REQUIRE(::fstat(opened->readable(), &status) == 0);
    CHECK(status.st_ino == found->file.inode);
}

TEST_CASE("children that have opened their files are not taken for ones that hang", "[kernel]") {
    require_bpf();
    auto list = ebpf::MappingList::open();
    REQUIRE(list.has_value());
    processes::MappingReader reader(**list);
    Mapped mapped;
    mapped.map();
    const auto mappings = reader.read(own_pid());
    REQUIRE(mappings.has_value());
    const auto found = std::ranges::find(*mappings, reinterpret_cast<std::uint64_t>(mapped.address),
                                         &ebpf::Mapping::start);
    REQUIRE(found != mappings->end());
    processes::FileOpener opener(**list);
    struct One {
        processes::FileOpener::Opening opening;
        bool is_open = false;
    };
    std::vector<std::unique_ptr<One>> all;
    const auto advance = [&](One &one) {
        if (!one.is_open) {
            const auto file = opener.advance(one.opening, std::chrono::milliseconds(0));
            REQUIRE((!file || file->has_value()));
            one.is_open = file.has_value();
        }
        return one.is_open;
    };
    for (int i = 0; i < 8; i++) {  // so that all of them have a child at once
        all.push_back(std::make_unique<One>(processes::FileOpener::Opening(
            *found, reader.path_of(*found), ForeignReader::Part::symbols)));
        advance(*all.back());
    }
    eventually("all to be opened", [&] {
        return std::ranges::all_of(all, [&](const auto &one) { return advance(*one); });
    });
    CHECK(opener.stuck() == 0);
}

TEST_CASE("a program on an overlay is one, and is read as a copy if a user has mounted it",
          "[kernel]") {
    require_bpf();
    auto list = ebpf::MappingList::open();
    REQUIRE(list.has_value());
    const bool is_user = GENERATE(false, true);
    CAPTURE(is_user);
    const TemporaryDirectory directory;
    std::vector<std::string> command = {"unshare", "--mount"};
    if (is_user) {
        command.insert(command.end(), {"--user", "--map-root-user"});
    }
    const std::string script =
        "mount -t tmpfs none \"$1\" && cd \"$1\" && mkdir lower upper work all && "
        "cp \"$(command -v sleep)\" lower/sleeper && mount -t overlay none -o "
        "lowerdir=lower,upperdir=upper,workdir=work all && exec all/sleeper 1000";
    command.insert(command.end(), {"sh", "-c", script, "sh", directory.path().string()});
    const Process program(command);
    const auto pid = static_cast<std::uint32_t>(program.pid());
    processes::MappingReader reader(**list);
    std::vector<ebpf::Mapping> mappings;
    eventually("the program to run", [&] {
        mappings = reader.read(pid).value_or(std::vector<ebpf::Mapping>());
        return std::ranges::find(mappings, "sleeper", &ebpf::Mapping::name) != mappings.end();
    });
    const auto found = std::ranges::find(mappings, true, &ebpf::Mapping::is_program);
    REQUIRE(found != mappings.end());
    CHECK(found->name == "sleeper");
    struct stat executed{};
    REQUIRE(::stat(("/proc/" + std::to_string(pid) + "/exe").c_str(), &executed) == 0);
    CHECK(found->program.inode == executed.st_ino);
    CHECK(found->program.device != found->file.device);
    CHECK(found->is_mounted_by_user == is_user);
    CHECK(std::ranges::count(mappings, true, &ebpf::Mapping::is_program) < std::ssize(mappings));

    const auto opened = processes::open_mapped(*found, reader.path_of(*found), **list);
    REQUIRE(opened.has_value());
    CHECK(static_cast<bool>(opened->content) == is_user);

    auto files = symbols::MappedFiles::open();
    REQUIRE(files.has_value());
    const auto bytes = static_cast<std::uint64_t>(executed.st_size);
    const auto as_program = (*files)->open_program(pid, found->program, bytes);
    REQUIRE(as_program.has_value());
    CHECK(static_cast<bool>(as_program->content) == is_user);
    // Another program of the same number and size.
    FileId other = found->program;
    other.device++;
    CHECK_FALSE((*files)->open_program(pid, other, bytes).has_value());
}

namespace {

// By perf, and in guests, whose kernels have fentry, by a BPF program.
Result<std::unique_ptr<ebpf::MmapEvents>> open_events(const std::string &way) {
    return way == "perf" ? ebpf::MmapEvents::open_perf() : ebpf::MmapEvents::open_bpf();
}
std::vector<std::string> ways() {
    return in_guest() ? std::vector<std::string>{"perf", "bpf"} : std::vector<std::string>{"perf"};
}

}  // namespace

TEST_CASE("a new executable mapping is heard of", "[kernel]") {
    require_bpf();
    const std::string way = GENERATE(from_range(ways()));
    CAPTURE(way);
    auto events = open_events(way);
    REQUIRE(events.has_value());
    Mapped mapped;
    const std::string path = way == "perf" ? mapped.path.string() : mapped.path.filename().string();
    std::vector<std::chrono::nanoseconds> heard;
    const auto listen = [&](std::uint32_t tgid, std::string_view of, std::chrono::nanoseconds at) {
        if (tgid == own_pid() && of == path) {
            heard.push_back(at);
        }
    };
    void *const data = ::mmap(nullptr, mapped.page, PROT_READ, MAP_PRIVATE, mapped.fd.get(), 0);
    REQUIRE(data != MAP_FAILED);
    (*events)->read(listen);
    CHECK(heard.empty());
    ::munmap(data, mapped.page);
    const auto before = now_on(CLOCK_MONOTONIC);
    mapped.map();
    const auto after = now_on(CLOCK_MONOTONIC);
    pollfd ready{(*events)->readiness(), POLLIN, 0};
    CHECK(::poll(&ready, 1, 0) == 1);
    (*events)->read(listen);
    REQUIRE(heard.size() == 1);
    CHECK(before <= heard[0]);
    CHECK(heard[0] <= after);
}

TEST_CASE("new processes are found at once without CAP_SYS_ADMIN", "[.guest]") {
    require_bpf();
    const NoPerfEvents refused;
    const Exporter exporter("discovery: {rescan_interval: 1h}\n", NoPerfEvents::starter());
    CHECK(exporter.log().find("found only by the rescan") == std::string::npos);
    const Process process({standin("workload"), "--iterations", "0", "--hold", "--name", "late"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
}

TEST_CASE("more mappings than the buffer holds are counted as dropped", "[kernel]") {
    require_bpf();
    const std::string way = GENERATE(from_range(ways()));
    CAPTURE(way);
    auto events = open_events(way);
    REQUIRE(events.has_value());
    Mapped mapped;
    // The buffer's size is a number of pages.
    for (std::size_t i = 0; i < 5'000 * mapped.page / 4096; i++) {
        mapped.map();
        ::munmap(mapped.address, mapped.page);
    }
    std::uint64_t heard = 0;
    std::uint64_t dropped = 0;
    for (int i = 0; i < 3; i++) {  // the count comes with the next record that fits
        dropped += (*events)->read([&](std::uint32_t tgid, std::string_view, auto) {
            heard += tgid == own_pid() ? 1 : 0;
        });
        mapped.map();
        ::munmap(mapped.address, mapped.page);
    }
    CHECK(heard > 0);
    CHECK(dropped > 0);
}

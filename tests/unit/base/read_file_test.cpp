#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "exporter/base/fd.h"
#include "exporter/base/read_file.h"
#include "tests/harness/machine/directory.h"
#include "tests/unit/child_process.h"

using namespace gpusnoop;
using namespace std::chrono_literals;
using harness::TemporaryDirectory;

TEST_CASE("the start of a file is read, and no more than asked for", "[read_file]") {
    const auto path =
        std::filesystem::temp_directory_path() / ("read_file_" + std::to_string(::getpid()));
    const std::string text(5000, 'x');
    std::ofstream(path) << text << "end";
    CHECK(read_start(path) == text + "end");
    CHECK(read_start(path, 5003) == text + "end");
    CHECK(read_start(path, 5000) == text);
    CHECK(read_start(path, 1) == "x");
    CHECK(read_start(path, 0) == "");
    std::filesystem::remove(path);
    CHECK(read_start(path).error().code == ENOENT);
    CHECK(read_start("/").error().code == EISDIR);
}

TEST_CASE("a file of a process that has ended is an error", "[read_file]") {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(0);
    }
    // A zombie has a directory yet, and no memory map: its end has been waited for with WNOWAIT.
    siginfo_t end{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT) == 0);
    const std::string directory = "/proc/" + std::to_string(child);
    CHECK(read_start(directory + "/comm").has_value());
    // Opened while it is there, read when it is not.
    const int stat = ::open((directory + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(stat >= 0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    const auto text = read_start("/proc/self/fd/" + std::to_string(stat));
    REQUIRE_FALSE(text.has_value());
    ::close(stat);
    CHECK(read_start(directory + "/stat").error().code == ENOENT);
}

// Files that settings name, which need not be files that end.

namespace {

constexpr std::size_t most = 1 << 20;

std::string fifo_in(const TemporaryDirectory &directory) {
    std::string path = directory / "fifo";
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    return path;
}

void write_all(const Fd &fd, std::string_view text) {
    REQUIRE(::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

// Long enough for what is to come, whatever else the machine does.
ReadingDeadline far_away() {
    return std::chrono::steady_clock::now() + 60s;
}

}  // namespace

TEST_CASE("a file is read whole, up to its limit") {
    const TemporaryDirectory directory;
    const std::string path = directory / "file";
    const std::string text(100'000, 'x');
    std::ofstream(path) << text;
    CHECK(read_text(path, most) == text);
    CHECK(read_text(path, text.size()) == text);
    CHECK(read_text(path, text.size() - 1).error().code == EFBIG);
    CHECK(read_text("/dev/null", most) == "");
    CHECK(read_text("/dev/zero", most).error().message == "larger than 1 MiB");
    CHECK(read_text(directory / "none", most).error().message == "No such file or directory");
    CHECK(read_text(directory / "", most).error().message == "Is a directory");
}

TEST_CASE("a FIFO that nobody writes to is given up on") {
    const TemporaryDirectory directory;
    const auto read = read_text(fifo_in(directory), most);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().message == "nothing came out of the file within 2 s");
    CHECK(read.error().code == ETIMEDOUT);
}

TEST_CASE("a FIFO that does not end is given up on") {
    const TemporaryDirectory directory;
    const std::string path = fifo_in(directory);
    const Fd writer(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    write_all(writer, "web: {}\n");
    const auto read = read_text(path, most);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().message == "the file did not end within 2 s");
}

TEST_CASE("what a FIFO's writer sends late and in parts is read whole") {
    const TemporaryDirectory directory;
    const std::string path = fifo_in(directory);
    std::jthread writing([&] {
        std::this_thread::sleep_for(100ms);
        const Fd writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
        for (const std::string_view part : {"web:\n", "  listen_address: ", ":1\n"}) {
            write_all(writer, part);
            std::this_thread::sleep_for(50ms);
        }
    });
    CHECK(read_text(path, most, far_away()) == "web:\n  listen_address: :1\n");
}

TEST_CASE("a pipe is read once, and is no empty file then") {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const Fd reader(ends[0]);
    Fd writer(ends[1]);
    const std::string path = "/dev/fd/" + std::to_string(reader.get());
    write_all(writer, "text");
    writer.reset();
    CHECK(read_text(path, most) == "text");
    const auto again = read_text(path, most);
    REQUIRE_FALSE(again.has_value());
    CHECK(again.error().message == "the pipe is empty: what was in it can be read only once");
}

TEST_CASE("a file that another process holds a lease on is given up on, and read later") {
    const TemporaryDirectory directory;
    const std::string path = directory / "leased";
    std::ofstream(path) << "text";
    test::ChildProcess holder([&](const test::ChildProcess::Tell &tell) {
        ::signal(SIGIO, SIG_IGN);
        const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        tell({::fcntl(fd, F_SETLEASE, F_WRLCK) == 0 ? 1U : 0U});
        test::ChildProcess::wait_for_death();
    });
    if (holder.told() != std::vector<std::uint64_t>{1}) {
        SKIP("this file system has no leases");
    }
    const auto read = read_text(path, most);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().message ==
          "another process holds a lease on the file, and it did not open within 2 s");
    holder.end();
    CHECK(read_text(path, most) == "text");
}

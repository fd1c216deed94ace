#include "exporter/system/foreign_reader.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "exporter/symbols/elf/elf_file.h"
#include "tests/harness/machine/directory.h"

using namespace gpusnoop;
using namespace std::chrono_literals;

namespace {

std::unique_ptr<ForeignReader> new_reader() {
    auto started = ForeignReader::start();
    REQUIRE(started.has_value());
    return std::move(*started);
}

ForeignReader::Answer answer_of(ForeignReader &reader, const Result<> &asked) {
    REQUIRE(asked.has_value());
    auto answer = reader.wait(20s);
    REQUIRE(answer.has_value());
    return std::move(*answer);
}

// The state and the parent in /proc/PID/stat; '\0' if there is no such process.
std::pair<char, pid_t> stat_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    std::pair<char, pid_t> found{'\0', 0};
    std::istringstream(text.substr(std::min(text.rfind(')') + 1, text.size()))) >> found.first >>
        found.second;
    return found;
}

std::string start_of(const Fd &file) {
    std::array<char, 64> bytes{};
    const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), 0);
    return got > 0 ? std::string(bytes.data(), static_cast<std::size_t>(got)) : "";
}

}  // namespace

TEST_CASE("a foreign reader opens a file, and hands it over") {
    const harness::TemporaryDirectory directory;
    std::ofstream(directory / "file") << "some text";
    const auto child = new_reader();
    const auto opened = answer_of(*child, child->open("", (directory / "file").string()));
    CHECK(opened.error == 0);
    CHECK(opened.bytes == 9);
    CHECK(opened.number != 0);
    CHECK(start_of(opened.file).empty());  // it only names the file
    CHECK(start_of(answer_of(*child, child->take()).file) == "some text");
    // It is closed there now.
    CHECK(answer_of(*child, child->copy(ForeignReader::Part::symbols)).error == EBADF);
}

TEST_CASE("a foreign reader opens nothing outside of a root") {
    const harness::TemporaryDirectory directory;
    std::ofstream(directory / "file") << "some text";
    std::filesystem::create_directory(directory / "root");
    std::filesystem::create_symlink("../file", directory / "root/link");
    const auto child = new_reader();
    CHECK(answer_of(*child, child->open((directory / "root").string(), "link")).error != 0);
    CHECK(answer_of(*child, child->open((directory / "root").string(), "/../file")).error ==
          ENOENT);
    CHECK(answer_of(*child, child->open((directory / "").string(), "file")).error == 0);
}

TEST_CASE("a foreign reader opens nothing that may wait, or that is no file") {
    const harness::TemporaryDirectory directory;
    const auto child = new_reader();
    REQUIRE(::mkfifo((directory / "fifo").c_str(), 0600) == 0);
    CHECK(answer_of(*child, child->open("", (directory / "fifo").string())).error == EINVAL);
    CHECK(answer_of(*child, child->open("", "/dev/null")).error == EINVAL);
    CHECK(answer_of(*child, child->open("", (directory / "nothing").string())).error == ENOENT);

    ::signal(SIGIO, SIG_IGN);
    std::ofstream(directory / "leased") << "some text";
    const Fd leased(::open((directory / "leased").c_str(), O_RDWR | O_CLOEXEC));
    if (::fcntl(leased.get(), F_SETLEASE, F_WRLCK) == 0) {
        CHECK(answer_of(*child, child->open("", (directory / "leased").string())).error == EAGAIN);
        REQUIRE(::fcntl(leased.get(), F_SETLEASE, F_UNLCK) == 0);
    }
    CHECK(answer_of(*child, child->open("", (directory / "leased").string())).error == 0);
}

TEST_CASE("a copy of a text is all of it, unless it is too large") {
    const harness::TemporaryDirectory directory;
    const std::string text(200'000, 't');
    std::ofstream(directory / "text") << text;
    const auto child = new_reader();
    const auto opened = answer_of(*child, child->open("", (directory / "text").string()));
    CHECK(opened.error == 0);
    CHECK(opened.owner == ::getuid());
    const auto copy = answer_of(*child, child->copy(ForeignReader::Part::whole_text));
    REQUIRE(copy.error == 0);
    std::string read(text.size() + 1, ' ');
    CHECK(::pread(copy.file.get(), read.data(), read.size(), 0) ==
          static_cast<ssize_t>(text.size()));
    CHECK(read == text + ' ');

    std::ofstream(directory / "large") << "";
    std::filesystem::resize_file(directory / "large", (std::uintmax_t{64} << 20) + 1);
    CHECK(answer_of(*child, child->open("", (directory / "large").string())).error == 0);
    CHECK(answer_of(*child, child->copy(ForeignReader::Part::whole_text)).error == EFBIG);
}

TEST_CASE("a copy of an ELF file answers as the file does") {
    const auto child = new_reader();
    CHECK(answer_of(*child, child->open("", "/proc/self/exe")).error == 0);
    const auto copy = answer_of(*child, child->copy(ForeignReader::Part::symbols_and_code));
    REQUIRE(copy.error == 0);
    const Fd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const auto of_copy = symbols::ElfFile::open(copy.file.get());
    const auto of_file = symbols::ElfFile::open(self.get());
    REQUIRE(of_copy.has_value());
    REQUIRE(of_file.has_value());
    CHECK(of_copy->build_id() == of_file->build_id());
    CHECK(of_copy->section_problem() == of_file->section_problem());
    const std::array<std::string_view, 1> names = {"main"};
    const auto in_copy = of_copy->find_functions(names);
    const auto in_file = of_file->find_functions(names);
    REQUIRE(in_copy.has_value());
    REQUIRE(in_file.has_value());
    REQUIRE(in_copy->size() == 1);
    REQUIRE(in_file->size() == 1);
    CHECK(in_copy->front().file_offset == in_file->front().file_offset);
    std::array<std::array<char, 64>, 2> code{};
    const auto at = static_cast<off_t>(in_file->front().file_offset);
    CHECK(::pread(copy.file.get(), code[0].data(), 64, at) == 64);
    CHECK(::pread(self.get(), code[1].data(), 64, at) == 64);
    CHECK(code[0] == code[1]);
}

TEST_CASE("a copy of a file that is no ELF file has its size and its start") {
    const harness::TemporaryDirectory directory;
    std::ofstream(directory / "file") << std::string(5000, 'x');
    const auto child = new_reader();
    CHECK(answer_of(*child, child->open("", (directory / "file").string())).error == 0);
    const auto copy = answer_of(*child, child->copy(ForeignReader::Part::symbols));
    REQUIRE(copy.error == 0);
    CHECK(start_of(copy.file) == std::string(64, 'x'));
    CHECK(std::filesystem::file_size("/proc/self/fd/" + std::to_string(copy.file.get())) == 5000);
}

TEST_CASE("a foreign reader that is killed is gone, and says so") {
    const auto child = new_reader();
    CHECK_FALSE(child->wait(0ms).has_value());
    while (!child->end()) {
        ::usleep(1000);
    }
    CHECK(answer_of(*child, Result<>()).error == EPIPE);
}

TEST_CASE("foreign readers that start have nothing that this process opens or closes") {
    REQUIRE(ForeignReader::prepare());
    std::atomic<int> started = 0;
    const std::jthread starting([&](const std::stop_token &stop) {
        while (!stop.stop_requested()) {
            started += ForeignReader::start().has_value() ? 1 : 0;
        }
    });
    int open_yet = 0;
    while (started < 100) {
        std::array<int, 2> ends{};
        REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
        const Fd reading(ends[0]);
        (void)Fd(ends[1]);
        char byte = 0;
        // The end of the file, unless somebody has the writing end.
        open_yet += ::read(reading.get(), &byte, 1) == 0 ? 0 : 1;
    }
    CHECK(open_yet == 0);
}

TEST_CASE("a foreign reader has the niceness of the thread that starts it") {
    REQUIRE(ForeignReader::prepare());
    int niceness = 0;
    std::jthread([&] {
        REQUIRE(::setpriority(PRIO_PROCESS, 0, 7) == 0);
        const auto child = new_reader();
        niceness = ::getpriority(PRIO_PROCESS, static_cast<id_t>(child->pid()));
    }).join();
    CHECK(niceness == 7);
}

TEST_CASE("if the process that forks foreign readers is killed, another one does") {
    const auto before = new_reader();
    const pid_t forking = stat_of(before->pid()).second;
    REQUIRE(stat_of(forking).second == ::getpid());
    REQUIRE(::kill(forking, SIGKILL) == 0);
    while (stat_of(forking).first != 'Z') {
        ::usleep(1000);
    }
    const auto after = new_reader();
    const pid_t next = stat_of(after->pid()).second;
    CHECK(next != forking);
    CHECK(stat_of(next).second == ::getpid());
    CHECK(stat_of(forking).first == '\0');
    // A reader outlives it.
    CHECK(answer_of(*before, before->open("", "/proc/self/exe")).error == 0);
    CHECK(before->pid() != after->pid());
}

TEST_CASE("a foreign reader reads on from a descriptor, and its end can be told from an error") {
    const auto child = new_reader();
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const Fd read(ends[0]);
    Fd write(ends[1]);
    REQUIRE(::write(write.get(), "text", 4) == 4);
    const auto first = answer_of(*child, child->read_on(read.get()));
    CHECK(first.error == 0);
    CHECK(first.number == 4);
    CHECK(std::memcmp(child->buffer().data(), "text", 4) == 0);
    REQUIRE(child->read_on(read.get()).has_value());
    CHECK_FALSE(child->wait(50ms).has_value());  // nothing is there
    write = Fd();
    const auto end = child->wait(20s);
    REQUIRE(end.has_value());
    CHECK(end->error == 0);
    CHECK(end->number == 0);
    const Fd closed(::open("/", O_PATH | O_CLOEXEC));
    CHECK(answer_of(*child, child->read_on(closed.get())).error == EBADF);
}

// Events on their way to files and sockets that are slow, full, gone or in order.
#include "exporter/sinks/sinks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "exporter/sinks/connection.h"
#include "exporter/sinks/target.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/receiver.h"

using namespace gpusnoop;
using namespace gpusnoop::sinks;
using namespace std::chrono_literals;
using harness::Receiver;
using harness::TemporaryDirectory;

namespace {

Target sinks_at(TargetType type, const std::string &path) {
    return parse_path(type, path).value();
}
Target sinks_at(std::uint16_t port) {
    return parse_tcp("127.0.0.1:" + std::to_string(port)).value();
}

std::unique_ptr<Sink> start(Target target, std::size_t queue_bytes = 1 << 20) {
    return Sink::start({.name = "tested",
                        .target = std::move(target),
                        .queue_bytes = queue_bytes,
                        .first_pause = 1ms,
                        .longest_pause = 10ms})
        .value();
}

void eventually(const char *what, const std::function<bool()> &done) {
    for (int i = 0; i < 6'000 && !done(); i++) {
        std::this_thread::sleep_for(10ms);
    }
    INFO(what);
    REQUIRE(done());
}

void wait_for_sent(const Sink &sink, std::uint64_t count) {
    eventually("the events to be sent", [&] { return sink.status().sent >= count; });
    CHECK(sink.status().sent == count);
}

std::string text_of(const std::string &path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

std::string line(int number) {
    return "{\"event\":" + std::to_string(number) + "}";
}

std::vector<std::string> numbered(int first, int last) {
    std::vector<std::string> lines;
    for (int i = first; i <= last; i++) {
        lines.push_back(line(i));
    }
    return lines;
}

void offer(Sink &sink, int first, int last) {
    for (const std::string &one : numbered(first, last)) {
        sink.offer(one);
    }
}

std::uint64_t lost(const Sink &sink) {
    return sink.status().lost.at("queue_full");
}

}  // namespace

TEST_CASE("addresses and paths of sinks are read, and wrong ones refused with a sentence") {
    for (const std::string text :
         {"collector:9000", "10.0.0.1:1", "[::1]:65535", "a-b.example_1.org:80"}) {
        const auto target = parse_tcp(text);
        REQUIRE(target);
        CHECK(to_text(*target) == "tcp:" + text);
    }
    for (const std::string text : {"", ":", ":9000", "host", "host:", "host:0", "host:65536",
                                   "host:-1", "host:9000x", "[::1]", "[::1:9000", "::1:9000",
                                   "[]:9000", "a b:9000", "http://host:9000", "]:1", "[:1"}) {
        INFO(text);
        const auto target = parse_tcp(text);
        REQUIRE_FALSE(target);
        CHECK(target.error().message.find("is not an address such as") != std::string::npos);
    }
    CHECK(to_text(sinks_at(TargetType::file, "/a/b")) == "file:/a/b");
    CHECK(to_text(sinks_at(TargetType::unix_socket, "/a/b")) == "unix:/a/b");
    for (const std::string path : {"", "a", "./a", "/", "/a/"}) {
        CHECK_FALSE(parse_path(TargetType::file, path));
    }
    CHECK(parse_path(TargetType::unix_socket, "/" + std::string(106, 'x')));
    CHECK_FALSE(parse_path(TargetType::unix_socket, "/" + std::string(107, 'x')));
}

TEST_CASE("a queue of lines is bounded by all that is not done") {
    Fd wake(::open("/dev/null", O_RDWR | O_CLOEXEC));
    LineQueue queue(10, std::move(wake));
    CHECK(queue.push("1234"));
    CHECK(queue.push("123"));
    CHECK_FALSE(queue.push("1"));
    CHECK(queue.push(""));
    CHECK(queue.bytes() == 10);
    CHECK(queue.take() == "1234\n123\n\n");
    CHECK(queue.take().empty());
    CHECK_FALSE(queue.push(""));
    queue.done(5);
    CHECK(queue.push("1234"));
    CHECK_FALSE(queue.push(""));
}

TEST_CASE("a file gets every event, in order, behind what it has") {
    const TemporaryDirectory directory;
    std::ofstream(directory / "events") << "before\n";
    {
        const auto sink = start(sinks_at(TargetType::file, directory / "events"));
        offer(*sink, 1, 1000);
        wait_for_sent(*sink, 1000);
        CHECK(lost(*sink) == 0);
    }
    std::string expected = "before\n";
    for (const std::string &one : numbered(1, 1000)) {
        expected += one + "\n";
    }
    CHECK(text_of(directory / "events") == expected);
}

TEST_CASE("a file that is renamed or deleted is made again") {
    const TemporaryDirectory directory;
    const auto sink = start(sinks_at(TargetType::file, directory / "events"));
    offer(*sink, 1, 2);
    wait_for_sent(*sink, 2);
    std::filesystem::rename(directory / "events", directory / "rotated");
    offer(*sink, 3, 3);
    wait_for_sent(*sink, 3);
    CHECK(text_of(directory / "rotated") == line(1) + "\n" + line(2) + "\n");
    CHECK(text_of(directory / "events") == line(3) + "\n");
    std::filesystem::remove(directory / "events");
    offer(*sink, 4, 4);
    wait_for_sent(*sink, 4);
    CHECK(text_of(directory / "events") == line(4) + "\n");
}

TEST_CASE("what a missing directory holds back comes when it is there") {
    const TemporaryDirectory directory;
    const auto sink = start(sinks_at(TargetType::file, directory / "later/events"));
    offer(*sink, 1, 10);
    std::this_thread::sleep_for(20ms);
    CHECK(sink->status().sent == 0);
    std::filesystem::create_directory(directory / "later");
    wait_for_sent(*sink, 10);
}

TEST_CASE("a disk that is full loses what the queue has no room for, and nothing else") {
    const auto sink = start(sinks_at(TargetType::file, "/dev/full"), 64 << 10);
    const std::string large(1'000, 'x');
    for (int i = 0; i < 100; i++) {
        sink->offer(large);
    }
    CHECK(sink->status().sent == 0);
    CHECK(lost(*sink) == 100 - (64 << 10) / 1'001);
}

TEST_CASE("a fifo that nobody reads holds nobody up") {
    const TemporaryDirectory directory;
    const std::string path = directory / "fifo";
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    const auto sink = start(sinks_at(TargetType::file, path));
    offer(*sink, 1, 3);
    std::this_thread::sleep_for(20ms);
    CHECK(sink->status().sent == 0);
    {
        const Fd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        wait_for_sent(*sink, 3);
        std::string text(4096, '\0');
        text.resize(static_cast<std::size_t>(::read(reader.get(), text.data(), text.size())));
        CHECK(text == line(1) + "\n" + line(2) + "\n" + line(3) + "\n");
    }
    // Its reader is gone: to write is an error, and SIGPIPE would end this program.
    offer(*sink, 4, 4);
    std::this_thread::sleep_for(20ms);
    CHECK(sink->status().sent == 3);
    const Fd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    wait_for_sent(*sink, 4);
}

TEST_CASE("a receiver on a socket gets every event, and the rest when it comes back") {
    const TemporaryDirectory directory;
    const std::string path = directory / "socket";
    for (const bool is_tcp : {false, true}) {
        CAPTURE(is_tcp);
        auto receiver = is_tcp ? std::make_unique<Receiver>(std::uint16_t{0})
                               : std::make_unique<Receiver>(path);
        const std::uint16_t port = is_tcp ? receiver->port() : 0;
        const auto sink = start(is_tcp ? sinks_at(port) : sinks_at(TargetType::unix_socket, path));
        offer(*sink, 1, 500);
        eventually("the events to arrive", [&] { return receiver->lines().size() >= 500; });
        CHECK(receiver->lines() == numbered(1, 500));
        receiver.reset();
        std::filesystem::remove(path);
        // The end of an idle receiver is seen before the next event is written to nobody.
        std::this_thread::sleep_for(100ms);
        offer(*sink, 501, 600);
        std::this_thread::sleep_for(20ms);
        CHECK(sink->status().sent == 500);
        receiver = is_tcp ? std::make_unique<Receiver>(port) : std::make_unique<Receiver>(path);
        eventually("the rest to arrive", [&] { return receiver->lines().size() >= 100; });
        CHECK(receiver->lines() == numbered(501, 600));
        CHECK(receiver->rests().empty());
        CHECK(sink->status().sent == 600);
        CHECK(lost(*sink) == 0);
    }
}

TEST_CASE("a receiver that reads nothing loses what does not fit, and lines stay whole") {
    const TemporaryDirectory directory;
    const std::string path = directory / "socket";
    constexpr int kCount = 4'000;
    const std::string filler(1'000, 'x');
    std::uint64_t sent = 0;
    std::uint64_t missing = 0;
    {
        // Listens, and never accepts.
        const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof(address.sun_path) - 1);
        REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr *>(&address), sizeof(address)) ==
                0);
        REQUIRE(::listen(listener.get(), 1) == 0);
        const auto sink = start(sinks_at(TargetType::unix_socket, path), 64 << 10);
        for (int i = 0; i < kCount; i++) {
            sink->offer(filler);
        }
        sent = sink->status().sent;
        missing = lost(*sink);
        CHECK(missing > 0);
        CHECK(sent + missing < kCount);  // some wait
    }
}

TEST_CASE("what waits at the end is sent, or counted") {
    const TemporaryDirectory directory;
    {
        const auto sink = start(sinks_at(TargetType::file, directory / "events"));
        offer(*sink, 1, 5000);
    }
    const std::string text = text_of(directory / "events");
    CHECK(std::count(text.begin(), text.end(), '\n') == 5000);
    CHECK(text.ends_with(line(5000) + "\n"));
}

namespace {

std::string sinks_problem_of(const std::string &path) {
    const auto file = open_to_append(path);
    return file ? "" : file.error().message;
}

}  // namespace

TEST_CASE("nobody else chooses which file a sink writes to") {
    const TemporaryDirectory directory;
    const auto mode = [](const std::string &path, mode_t bits) {
        REQUIRE(::chmod(path.c_str(), bits) == 0);
    };
    const std::string own = directory / "own";
    std::filesystem::create_directory(own);

    SECTION("a directory of the exporter's user, below one that keeps names apart") {
        CHECK(sinks_problem_of(own + "/file") == "");
        CHECK(sinks_problem_of(own + "/./../own//file") == "");
        CHECK(sinks_problem_of(own) == "open: Is a directory");
        CHECK(sinks_problem_of(own + "/none/file") == "open: No such file or directory");
        mode(own, 0770);
        CHECK(sinks_problem_of(own + "/file") == "");
    }
    SECTION("where everybody writes") {
        const std::string refused =
            "everybody may write to a directory of its path: choose one of the exporter's own";
        mode(own, 01777);
        CHECK(sinks_problem_of(own + "/file") == refused);
        std::filesystem::create_directory(own + "/below");
        CHECK(sinks_problem_of(own + "/below/file") == "");
        mode(own, 0777);
        CHECK(sinks_problem_of(own + "/below/file") == refused);
        CHECK_FALSE(std::filesystem::exists(own + "/file"));
    }
    SECTION("links of the exporter's user, at the end and on the way") {
        std::filesystem::create_symlink("own/file", directory / "link");
        CHECK(sinks_problem_of(directory / "link") == "");
        CHECK(std::filesystem::exists(own + "/file"));
        std::filesystem::create_symlink(own, directory / "way");
        CHECK(sinks_problem_of(directory / "way/other") == "");
        std::filesystem::create_symlink("circle", directory / "circle");
        CHECK(sinks_problem_of(directory / "circle") == "open: Too many levels of symbolic links");
    }
    SECTION("links of others") {
        if (::geteuid() != 0) {
            SKIP("only root can make what is another user's");
        }
        const std::string refused = "its path leads through a symbolic link of another user";
        for (const std::string name : {"link", "way"}) {
            const std::string link = directory / name;
            std::filesystem::create_symlink(name == "way" ? own : own + "/file", link);
            REQUIRE(::lchown(link.c_str(), 12345, 12345) == 0);
        }
        CHECK(sinks_problem_of(directory / "link") == refused);
        CHECK(sinks_problem_of(directory / "way/file") == refused);
        CHECK_FALSE(std::filesystem::exists(own + "/file"));
    }
    SECTION("the program's own output") {
        std::array<int, 2> ends{};
        REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
        const Fd reader(ends[0]);
        const Fd writer(ends[1]);
        CHECK(sinks_problem_of("/proc/self/fd/" + std::to_string(writer.get())) == "");
        CHECK(sinks_problem_of("/dev/fd/" + std::to_string(writer.get())) == "");
    }
}

// Writing to whoever reads, or does not.
#include "exporter/base/output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <string>
#include <thread>

#include "exporter/base/fd.h"

using gpusnoop::Fd;
using gpusnoop::Output;

namespace {

struct Pipe {
    Pipe() {
        std::array<int, 2> fds{};
        REQUIRE(::pipe2(fds.data(), O_CLOEXEC) == 0);
        out = Fd(fds[0]);
        in = Fd(fds[1]);
    }
    Fd out;
    Fd in;
};

std::string read_all(int fd) {
    std::string text;
    std::array<char, 777> piece{};
    for (ssize_t got = 0; (got = ::read(fd, piece.data(), piece.size())) > 0;) {
        text.append(piece.data(), static_cast<std::size_t>(got));
    }
    return text;
}

}  // namespace

TEST_CASE("a slow reader gets every line") {
    Pipe pipe;
    Pipe stop;
    std::string expected;
    std::string got;
    std::thread reader([&] { got = read_all(pipe.out.get()); });
    {
        Output output(pipe.in.get(), stop.out.get());
        for (int i = 0; i < 50'000; i++) {
            const std::string line = "line " + std::to_string(i) + "\n";
            expected += line;
            output.add(line);
        }
        output.flush();
        CHECK_FALSE(output.closed());
    }
    pipe.in.reset();
    reader.join();
    CHECK(got == expected);
}

TEST_CASE("without a reader the output is closed, not the program") {
    ::signal(SIGPIPE, SIG_IGN);
    Pipe pipe;
    Pipe stop;
    Output output(pipe.in.get(), stop.out.get());
    CHECK_FALSE(output.wait(0));
    CHECK_FALSE(output.closed());
    pipe.out.reset();
    SECTION("it is noticed while writing") {
        output.add("x\n");
        output.flush();
    }
    SECTION("it is noticed while there is nothing to write") {
        CHECK_FALSE(output.wait(0));
    }
    CHECK(output.closed());
    output.add("y\n");  // goes nowhere
    output.flush();
}

TEST_CASE("a full disk is an error, a reader that went is not") {
    ::signal(SIGPIPE, SIG_IGN);
    Pipe pipe;
    Pipe stop;
    const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    REQUIRE(full);
    Output to_disk(full.get(), stop.out.get());
    to_disk.add("x\n");
    to_disk.flush();
    CHECK(to_disk.closed());
    CHECK(to_disk.error() == ENOSPC);
    pipe.out.reset();
    Output to_nobody(pipe.in.get(), stop.out.get());
    to_nobody.add("x\n");
    to_nobody.flush();
    CHECK(to_nobody.closed());
    CHECK(to_nobody.error() == 0);
}

TEST_CASE("a reader that does not read does not keep the program from ending") {
    Pipe pipe;
    Pipe stop;
    Output output(pipe.in.get(), stop.out.get());
    REQUIRE(::write(stop.in.get(), "x", 1) == 1);
    CHECK(output.wait(0));
    CHECK_FALSE(output.closed());
    output.add(std::string(std::size_t{4} << 20U, 'x'));  // more than a pipe holds
    output.flush();
    CHECK(output.closed());
}

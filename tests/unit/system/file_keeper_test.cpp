// Files that are open in this process and in the keeper.
#include "exporter/system/file_keeper.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/machine/open_files.h"

using namespace gpusnoop;
using namespace std::chrono_literals;
using harness::processes_that_have_open;

namespace {

struct stat status_of_kept(const Fd &file) {
    struct stat status{};
    REQUIRE(::fstat(file.get(), &status) == 0);
    return status;
}

bool comes_to(const std::function<bool()> &is_so) {
    for (int i = 0; i < 6000 && !is_so(); i++) {
        std::this_thread::sleep_for(10ms);
    }
    return is_so();
}

pid_t keeper_of(const struct stat &file) {
    REQUIRE(comes_to([&] { return processes_that_have_open(file).size() == 1; }));
    return processes_that_have_open(file)[0];
}

// A file of its own for each name, deleted already.
Fd deleted_file(const harness::TemporaryDirectory &directory, const std::string &name) {
    const std::string path = (directory / name).string();
    std::ofstream(path) << "text";
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(file);
    std::filesystem::remove(path);
    return file;
}

// A connection whose last close waits until its peer has read what was sent, or is gone.
struct SlowToClose {
    Fd peer;
    Fd file{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

    SlowToClose() {
        const Fd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof(address);
        auto *const at = reinterpret_cast<sockaddr *>(&address);
        REQUIRE(::bind(server.get(), at, length) == 0);
        REQUIRE(::listen(server.get(), 1) == 0);
        REQUIRE(::getsockname(server.get(), at, &length) == 0);
        REQUIRE(::connect(file.get(), at, length) == 0);
        peer = Fd(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
        REQUIRE(peer);
        const linger patient{.l_onoff = 1, .l_linger = 1000};
        REQUIRE(::setsockopt(file.get(), SOL_SOCKET, SO_LINGER, &patient, sizeof(patient)) == 0);
        const std::array<char, 65'536> bytes{};
        while (::send(file.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
        }
    }
};

}  // namespace

TEST_CASE("a file that is kept is closed elsewhere after all descriptors of it here") {
    const harness::TemporaryDirectory directory;
    Fd file = keep_open_elsewhere(deleted_file(directory, "file"), 1000);
    REQUIRE(file.kept() != nullptr);
    const auto status = status_of_kept(file);
    const pid_t keeper = keeper_of(status);
    Fd copy = duplicate(file);
    Fd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    other = {std::move(other), copy.kept()};  // such as a link to a probe in it
    {
        const harness::StoppedProcess stopped(keeper);
        file.reset();
        copy.reset();
        CHECK(processes_that_have_open(status) == std::vector{keeper});
    }
    Fd second = keep_open_elsewhere(deleted_file(directory, "second"), 1000);
    CHECK(keeper_of(status_of_kept(second)) == keeper);
    CHECK(processes_that_have_open(status) == std::vector{keeper});
    {
        const harness::StoppedProcess stopped(keeper);
        other.reset();
        CHECK(processes_that_have_open(status) == std::vector{keeper});
    }
    CHECK(comes_to([&] { return processes_that_have_open(status).empty(); }));
    CHECK(processes_that_have_open(status_of_kept(second)) == std::vector{keeper});
}

TEST_CASE("what keeps a file goes after its descriptor, with the last copy") {
    int released = 0;
    int number = -1;
    Fd copy;
    {
        Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        number = file.get();
        file = {std::move(file), std::shared_ptr<const void>(nullptr, [&](const void *) {
                    released++;
                    CHECK(::fcntl(number, F_GETFD) < 0);
                })};
        copy = duplicate(file);
        const Fd moved = std::move(file);
        CHECK(moved.get() == number);
        CHECK(released == 0);
    }
    CHECK(released == 0);
    number = copy.get();
    copy = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    CHECK(released == 1);
}

TEST_CASE("a file of one user that takes long to close delays those of no other user") {
    const harness::TemporaryDirectory directory;
    SlowToClose connection;
    Fd slow = keep_open_elsewhere(std::move(connection.file), 1000);
    Fd same = keep_open_elsewhere(deleted_file(directory, "same"), 1000);
    Fd other = keep_open_elsewhere(deleted_file(directory, "other"), 2000);
    const auto slow_status = status_of_kept(slow);
    const auto same_status = status_of_kept(same);
    const auto other_status = status_of_kept(other);
    const pid_t keeper = keeper_of(other_status);
    slow.reset();
    REQUIRE(comes_to([&] { return processes_that_have_open(slow_status).empty(); }));
    same.reset();
    other.reset();
    CHECK(comes_to([&] { return processes_that_have_open(other_status).empty(); }));
    CHECK(processes_that_have_open(same_status) == std::vector{keeper});
    connection.peer.reset();
    CHECK(comes_to([&] { return processes_that_have_open(same_status).empty(); }));
}

TEST_CASE("files are closed here if their keeper was killed, and another one keeps the next") {
    const harness::TemporaryDirectory directory;
    Fd file = keep_open_elsewhere(deleted_file(directory, "file"), std::nullopt);
    const auto status = status_of_kept(file);
    const pid_t keeper = keeper_of(status);
    ::kill(keeper, SIGKILL);
    REQUIRE(comes_to([&] { return processes_that_have_open(status).empty(); }));
    file.reset();
    Fd next;
    CHECK(comes_to([&] {
        next = keep_open_elsewhere(deleted_file(directory, "next"), std::nullopt);
        return next.kept() != nullptr;
    }));
    const pid_t another = keeper_of(status_of_kept(next));
    CHECK(another != keeper);
    CHECK_FALSE(keep_open_elsewhere(Fd(), 1000));
}

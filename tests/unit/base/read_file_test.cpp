#include "exporter/base/read_file.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

using namespace gpusnoop;

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

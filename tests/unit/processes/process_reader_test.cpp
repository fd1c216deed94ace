#include "exporter/processes/process_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include "exporter/base/fd.h"
#include "exporter/base/read_file.h"
#include "exporter/processes/arguments.h"
#include "tests/harness/machine/directory.h"
#include "tests/unit/child_process.h"

using namespace gpusnoop;
using namespace std::chrono_literals;
using processes::ProcessReader;

namespace {

constexpr std::uint32_t no_process = 1U << 23U;  // of no known user

std::uint32_t own_process() {
    return static_cast<std::uint32_t>(::getpid());
}
// Of the same user.
std::uint32_t parent_process() {
    return static_cast<std::uint32_t>(::getppid());
}

struct TextPipe {
    Fd read;
    Fd write;

    TextPipe() {
        std::array<int, 2> ends{};
        REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
        read = Fd(ends[0]);
        write = Fd(ends[1]);
    }
};

Result<std::string> arguments(ProcessReader &reader, std::uint32_t tgid, std::size_t most) {
    return reader.about(
        tgid, [&] { return reader.read_text("/proc/" + std::to_string(tgid) + "/cmdline", most); });
}

// The errno, or 0. It waits until somebody writes.
int ask_about(ProcessReader &reader, std::uint32_t tgid, const TextPipe &pipe) {
    const auto answer = reader.about(tgid, [&] {
        return reader.ask([&](ForeignReader &child) { return child.read_on(pipe.read.get()); });
    });
    return answer ? 0 : answer.error().code;
}

constexpr ProcessReader::Limits small_limits = {
    .patience = 50ms, .of_user = 120ms, .window = 1min, .first_pause = 200ms};

}  // namespace

TEST_CASE("a process reader reads files of /proc, as much as is wanted") {
    ProcessReader reader;
    const auto own = read_start("/proc/self/cmdline");
    REQUIRE(own.has_value());
    CHECK(arguments(reader, own_process(), 65'536).value_or("") == *own);
    CHECK(processes::arguments_of(own_process()).value_or("") == own->substr(0, 8192));
    CHECK(arguments(reader, own_process(), 3).value_or("") == own->substr(0, 3));
    const auto missing = arguments(reader, no_process, 3);
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().code == ENOENT);
    // In more than one piece.
    std::string pieces;
    int count = 0;
    const auto read = reader.about(own_process(), [&] {
        return reader.read_pieces("/proc/self/smaps", [&](std::string_view piece) {
            pieces += piece;
            return ++count < 3;
        });
    });
    CHECK(read.has_value());
    CHECK(count == 3);
    CHECK(pieces.starts_with(read_start("/proc/self/smaps", 8).value_or("?")));
    CHECK(reader.left_alone() == 0);
}

TEST_CASE("a process reader finds what is below a root, wherever links lead") {
    const harness::TemporaryDirectory directory;
    std::filesystem::create_symlink("/nowhere", directory / "link");
    ProcessReader reader;
    const auto find = [&](std::string_view path) {
        const auto found = reader.about(
            own_process(), [&] { return reader.find(directory.path().string(), path); });
        return found ? 0 : found.error().code;
    };
    CHECK(find("/") == 0);
    CHECK(find("link") == 0);
    CHECK(find("/../link") == 0);
    CHECK(find("tmp") == ENOENT);
    CHECK(find("link/file") == ENOENT);
}

TEST_CASE("a process that does not answer is left alone, and in the end its user") {
    ProcessReader reader(small_limits);
    const TextPipe silent;
    CHECK(ask_about(reader, own_process(), silent) == ETIMEDOUT);
    CHECK(reader.left_alone() == 1);
    // At once, without a question.
    CHECK(arguments(reader, own_process(), 3).error().code == ETIMEDOUT);
    // Other processes of the user have the rest of his time, and others all of it.
    CHECK(arguments(reader, parent_process(), 3).has_value());
    CHECK(ask_about(reader, parent_process(), silent) == ETIMEDOUT);
    std::this_thread::sleep_for(250ms);
    CHECK(ask_about(reader, own_process(), silent) == ETIMEDOUT);
    CHECK(reader.left_alone() == 2);
    std::this_thread::sleep_for(500ms);
    CHECK(arguments(reader, parent_process(), 3).error().code == ETIMEDOUT);
    CHECK(arguments(reader, no_process, 3).error().code == ENOENT);
}

TEST_CASE("a process that answers in time keeps the reader waiting for its user's share alone") {
    ProcessReader reader(small_limits);
    const TextPipe slow;
    int answered = 0;
    for (; answered < 20; answered++) {
        const std::jthread writer([&] {
            std::this_thread::sleep_for(35ms);
            (void)!::write(slow.write.get(), "x", 1);
        });
        if (ask_about(reader, own_process(), slow) != 0) {
            break;
        }
    }
    CHECK(answered >= 1);
    CHECK(answered < 20);
    CHECK(arguments(reader, no_process, 3).error().code == ENOENT);
}

TEST_CASE("processes that end while they are waited for keep the reader waiting for their user") {
    ProcessReader reader(small_limits);
    const TextPipe silent;
    int asked = 0;
    for (; asked < 10; asked++) {
        test::ChildProcess brief([](const auto &tell) { tell({}); });
        const std::jthread killer([&] {
            std::this_thread::sleep_for(10ms);
            brief.end();
        });
        REQUIRE(ask_about(reader, brief.tgid(), silent) == ETIMEDOUT);
        if (const auto own = arguments(reader, own_process(), 3); !own) {
            CHECK(own.error().code == ETIMEDOUT);
            break;
        }
    }
    CHECK(asked < 10);
    CHECK(arguments(reader, no_process, 3).error().code == ENOENT);
}

TEST_CASE("what is long to read keeps the reader busy for its user's share alone") {
    constexpr std::size_t page = 4096;
    constexpr std::size_t many = 20'000;  // mappings, each with a text of its own in smaps
    const auto size = 2 * many * page;
    void *const memory =
        ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    for (std::size_t i = 0; i < many; i++) {
        REQUIRE(::mprotect(static_cast<std::byte *>(memory) + 2 * i * page, page, PROT_READ) == 0);
    }
    ProcessReader reader({.patience = 1min, .of_user = 120ms, .window = 10min});
    int read = 0;
    for (; read < 100; read++) {
        const auto all = reader.about(own_process(), [&] {
            return reader.read_pieces("/proc/" + std::to_string(own_process()) + "/smaps",
                                      [](std::string_view) { return true; });
        });
        if (!all) {
            CHECK(all.error().code == ETIMEDOUT);
            break;
        }
    }
    ::munmap(memory, size);
    CHECK(read >= 1);
    CHECK(read < 100);
    CHECK(arguments(reader, no_process, 3).error().code == ENOENT);
}

TEST_CASE("what the caller spends on a process without waiting counts for its user, too") {
    ProcessReader reader(small_limits);
    const auto spend = [&](std::uint32_t tgid, std::chrono::milliseconds time) {
        return reader.about(tgid, [&]() -> Result<bool> { return reader.spend(time); });
    };
    CHECK(spend(own_process(), 0ms).value());
    CHECK_FALSE(spend(own_process(), 60ms).value());  // more than there is patience with it
    CHECK_FALSE(spend(parent_process(), 70ms).value());
    REQUIRE_FALSE(spend(own_process(), 0ms));
    CHECK(spend(parent_process(), 0ms).error().code == ETIMEDOUT);
    CHECK(arguments(reader, no_process, 3).error().code == ENOENT);
}

// The settings of the probe `syscall`, and its calls as lines.
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/syscall/settings.h"
#include "exporter/probes/syscall/trace.h"
#include "exporter/symbols/names/syscall_names.h"
#include "tests/unit/config/problems.h"
#include "tests/unit/probes/event_lines.h"

using namespace gpusnoop;
using namespace gpusnoop::trace;
using namespace event_lines;
using nlohmann::json;

TEST_CASE("the settings of system calls are read") {
    const auto config = config::parse(
        "syscall: {enabled: true, syscalls: [memory, ioctl, compat, unknown], max_counts: 100}\n",
        "c.yaml", probes::setting_blocks());
    REQUIRE(config);
    CHECK(config->of<probes::SyscallConfig>() ==
          probes::SyscallConfig{true, {"memory", "ioctl", "compat", "unknown"}, 100});
}

TEST_CASE("what is wrong with the settings of system calls is said with its place") {
    CHECK(test::problems("syscall: {syscalls: [opened]}\n") ==
          "c.yaml:1:22: syscall.syscalls[0]: \"opened\" is neither a system call nor a group of "
          "them (file, io, locking, memory, network, polling, process, signal, timing), nor compat "
          "or unknown");
    CHECK(test::problems("syscall: {syscalls: [other]}\n") != "");
    CHECK(test::problems("syscall: {max_counts: 63}\n")
              .starts_with("c.yaml:1:23: syscall.max_counts"));
    CHECK(test::problems("syscall: {ring: 1}\n").starts_with("c.yaml:1:11: syscall.ring: "));
}

namespace {

syscall_record a_syscall(const std::string &name) {
    syscall_record record{};
    record.head = {ended, 1, 100, SYSCALL_RECORD};
    record.nanoseconds = 1'500;
    record.tid = 101;
    record.number = *syscall_number(name);
    record.made_with = static_cast<std::int32_t>(record.number);
    const std::uint64_t arguments[] = {0xffffffffffffffff, 2, 3, 4, 5, 6};
    std::copy(std::begin(arguments), std::end(arguments), record.arguments);
    return record;
}

}  // namespace

TEST_CASE("a system call as a line") {
    syscall_record record = a_syscall("dup");
    record.result = -9;
    const Event event = event_of(record, a_traced_process(), offset);
    CHECK(parsed(event) ==
          of_traced({{"time", "2023-11-14T22:13:20.123459500Z"},
                     {"duration_ns", 1'500},
                     {"syscall", "dup"},
                     {"result", -9},
                     {"error", "EBADF"},
                     {"arguments", {"0xffffffffffffffff", "0x2", "0x3", "0x4", "0x5", "0x6"}}}));
    CHECK(columns(event) ==
          "100 101 99 train\uFFFD dup 1.5us EBADF "
          "arguments=(0xffffffffffffffff,0x2,0x3,0x4,0x5,0x6) script=train.py\uFFFD "
          "slurm_job_id=4711");

    const auto returned = [&](std::int64_t result) {
        record.result = result;
        return event_of(record, a_traced_process(), offset);
    };
    CHECK(parsed(returned(0x7f0011223000))["result"] == 0x7f0011223000);
    CHECK(parsed(returned(0x7f0011223000))["error"].is_null());
    CHECK(returned(0x7f0011223000).result == "0x7f0011223000");
    CHECK(returned(4'294'967'295).result == "4294967295");
    CHECK(returned(-4'095).result == "unknown");
    CHECK(returned(-4'096).result == "-4096");
    CHECK(parsed(returned(-4'096))["error"].is_null());
}

TEST_CASE("system calls without a name, or without a result, as lines") {
    syscall_record record = a_syscall("dup");
    record.number = SYSCALL_UNKNOWN;
    record.made_with = 100'000;
    json line = parsed(event_of(record, a_traced_process(), offset));
    CHECK(line["syscall"] == "unknown");
    CHECK(line["number"] == 100'000);
    record.number = SYSCALL_COMPAT;
    record.made_with = 64;
    line = parsed(event_of(record, a_traced_process(), offset));
    CHECK(line["syscall"] == "compat");
    CHECK(line["number"] == 64);
    CHECK_FALSE(parsed(event_of(a_syscall("dup"), {}, offset)).contains("number"));

    record = a_syscall("rt_sigreturn");
    record.result = -9;
    const Event event = event_of(record, a_traced_process(), offset);
    line = parsed(event);
    CHECK(line["result"].is_null());
    CHECK(line["error"].is_null());
    CHECK_FALSE(line.contains("arguments"));
    CHECK(columns(event) ==
          "100 101 99 train\uFFFD rt_sigreturn 1.5us - script=train.py\uFFFD slurm_job_id=4711");
}

namespace {

json open_line(const std::string &name, std::array<std::uint64_t, 4> arguments,
               std::string_view path, std::int64_t result) {
    syscall_record record{};
    record.head = {ended, 1, 100, SYSCALL_RECORD};
    record.nanoseconds = 1'500;
    record.tid = 101;
    record.number = *syscall_number(name);
    record.result = result;
    for (std::size_t i = 0; i < arguments.size(); i++) {
        record.arguments[i] = arguments.at(i);
    }
    return parsed(open_event_of(record, path, a_traced_process(), offset));
}

}  // namespace

TEST_CASE("a call that opens a file has its path, its directory and its flags") {
    constexpr auto here = static_cast<std::uint32_t>(AT_FDCWD);
    json line = open_line("openat", {here, 1, O_RDONLY | O_CLOEXEC, 0}, "/data/train.bin", 7);
    CHECK(line["syscall"] == "openat");
    CHECK(line["path"] == "/data/train.bin");
    CHECK(line["directory"].is_null());
    CHECK(line["flags"] == "O_RDONLY|O_CLOEXEC");
    CHECK(line["result"] == 7);
    CHECK(line["error"].is_null());
    CHECK(line["duration_ns"] == 1'500);
    CHECK(!line.contains("arguments"));

    line = open_line("openat", {5, 1, O_RDWR | O_CREAT | O_EXCL | O_SYNC, 0}, "model.pt", -17);
    CHECK(line["directory"] == 5);
    CHECK(line["flags"] == "O_RDWR|O_CREAT|O_EXCL|O_SYNC");
    CHECK(line["error"] == "EEXIST");
    CHECK(open_line("openat", {here, 1, O_TMPFILE | O_WRONLY, 0}, "/tmp", 3)["flags"] ==
          "O_WRONLY|O_TMPFILE");

    // Its flags are in the program's memory.
    CHECK(open_line("openat2", {here, 1, 2, 24}, "/x", 3)["flags"].is_null());
}

TEST_CASE("a path that cannot be read is null, and one of any bytes is safe to show") {
    CHECK(open_line("openat", {0, 1, 0, 0}, "", -14)["path"].is_null());
    CHECK(open_line("openat", {0, 1, 0, 0}, "a\x1b[2J\xff", -2)["path"] == "a\uFFFD[2J\uFFFD");
}

#ifdef __x86_64__
TEST_CASE("older calls that open files have the path first") {
    CHECK(open_line("open", {1, O_WRONLY | O_APPEND, 0, 0}, "log", 3)["flags"] ==
          "O_WRONLY|O_APPEND");
    CHECK(open_line("creat", {1, 0644, 0, 0}, "log", 3)["flags"].is_null());
}
#endif

// System calls as lines: for people and for programs.
#include "exporter/probes/syscall/trace.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <iterator>

#include "exporter/symbols/names/syscall_names.h"
#include "tests/unit/probes/event_lines.h"

using namespace gpusnoop;
using namespace gpusnoop::trace;
using namespace event_lines;
using nlohmann::json;

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
          json({{"time", "2023-11-14T22:13:20.123459500Z"},
                {"duration_ns", 1'500},
                {"pid", 100},
                {"tid", 101},
                {"ppid", 99},
                {"comm", "train\uFFFD"},
                {"script", "train.py\uFFFD"},
                {"container_id", container},
                {"slurm_job_id", "4711"},
                {"user", "alice"},
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

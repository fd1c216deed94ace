// Records of the kernel's side as lines: for people and for programs.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <nlohmann/json.hpp>

#include "exporter/probes/pcie/devices.h"
#include "exporter/symbols/names/syscall_names.h"
#include "exporter/trace/kernel_events.h"
#include "exporter/trace/lines.h"

using namespace gpusnoop;
using namespace gpusnoop::trace;
using nlohmann::json;

namespace {

// Everything below ends 5000 ns after the clock's beginning, which was at this time.
constexpr std::int64_t offset = 1'700'000'000'123'456'000;
constexpr std::uint64_t ended = 5'000;

const std::string container(64, 'a');

process_identity a_process() {
    process_identity identity{};
    identity.ppid = 99;
    std::strcpy(identity.comm, "setpci");
    std::strcpy(identity.cgroup, ("docker-" + container + ".scope").c_str());
    return identity;
}

probes::ProcessIdentity a_traced_process() {
    probes::ProcessIdentity process;
    process.ppid = 99;
    process.comm = "train\x1b";
    process.container = container;
    return process;
}

pcie_record an_access() {
    pcie_record record{};
    record.ended_ns = ended;
    record.duration_ns = 1'500;
    record.device = *probes::pci_device("0000:3b:00.0");
    record.offset = 0x88;
    record.value = 0xffff;
    record.access = 2 | PCIE_WRITES | PCIE_USER;
    record.tgid = 100;
    record.tid = 101;
    record.identity = a_process();
    return record;
}

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

json parsed(const Event &event) {
    const std::string line = json_line(event);
    CHECK(line.ends_with('\n'));
    CHECK(std::ranges::count(line, '\n') == 1);
    return json::parse(line);
}

// The columns behind the time, with one blank between them.
std::string columns(const Event &event) {
    std::string line = text_line(event);
    CHECK(line.starts_with("22:13:20.1234"));
    CHECK(line.ends_with('\n'));
    line = line.substr(16, line.size() - 17);
    line = line.substr(line.find_first_not_of(' '));
    line.erase(std::unique(line.begin(), line.end(),
                           [](char one, char next) { return one == ' ' && next == ' '; }),
               line.end());
    return line;
}

}  // namespace

TEST_CASE("an access to the configuration space as a line") {
    Event event = event_of(an_access(), "link_control", offset);
    CHECK(parsed(event) == json({{"time", "2023-11-14T22:13:20.123459500Z"},
                                 {"duration_ns", 1'500},
                                 {"pid", 100},
                                 {"tid", 101},
                                 {"ppid", 99},
                                 {"comm", "setpci"},
                                 {"container", container},
                                 {"op", "write"},
                                 {"result", 0},
                                 {"error", nullptr},
                                 {"device", "0000:3b:00.0"},
                                 {"offset", "0x88"},
                                 {"register", "link_control"},
                                 {"size", 2},
                                 {"value", "0xffff"},
                                 {"origin", "user"}}));
    CHECK(columns(event) ==
          "100 101 99 setpci write 1.5us 0 device=0000:3b:00.0 offset=0x88 register=link_control "
          "size=2 value=0xffff origin=user");

    pcie_record record = an_access();
    record.access = 4;
    record.value = 0xffff'ffff;
    record.tgid = record.tid = 0;
    record.identity = {};
    const auto failed_with = [&](std::int32_t result) {
        record.result = result;
        return event_of(record, "", offset);
    };
    event = failed_with(0x86);
    const json line = parsed(event);
    CHECK(line["pid"].is_null());
    CHECK(line["tid"].is_null());
    CHECK(line["comm"] == "interrupt");
    CHECK(line["op"] == "read");
    CHECK(line["origin"] == "driver");
    CHECK(line["register"].is_null());
    CHECK(line["result"] == 0x86);
    CHECK(line["error"] == "PCIBIOS_DEVICE_NOT_FOUND");
    CHECK(columns(event) ==
          "- - - interrupt read 1.5us PCIBIOS_DEVICE_NOT_FOUND device=0000:3b:00.0 offset=0x88 "
          "size=4 value=0xffffffff origin=driver");
    CHECK(parsed(failed_with(0x87))["error"] == "PCIBIOS_BAD_REGISTER_NUMBER");
    CHECK(parsed(failed_with(-19))["error"] == "ENODEV");
    CHECK(parsed(failed_with(7))["error"] == "7");
}

TEST_CASE("a call of the NVIDIA driver's helpers as a line") {
    nvlink_record record{};
    record.ended_ns = ended;
    record.duration_ns = 2'000;
    record.bytes = 4'096;
    record.op = NVLINK_MEMSET;
    record.tgid = 100;
    record.tid = 101;
    record.identity = a_process();
    const Event event = event_of(record, offset);
    CHECK(parsed(event) == json({{"time", "2023-11-14T22:13:20.123459000Z"},
                                 {"duration_ns", 2'000},
                                 {"pid", 100},
                                 {"tid", 101},
                                 {"ppid", 99},
                                 {"comm", "setpci"},
                                 {"container", container},
                                 {"function", "nvlink_memset"},
                                 {"bytes", 4'096}}));
    CHECK(columns(event) == "100 101 99 setpci nvlink_memset 2.0us - bytes=4096");
}

TEST_CASE("what happens to a fence as a line") {
    fence_record record{};
    record.head = {ended, 1, 100, FENCE_RECORD + FENCE_wait_end};
    record.fence.context = 40'000'000'000;
    record.fence.seqno = 7;
    record.tid = 101;
    record.has_duration = 1;
    record.nanoseconds = 3'000'000;
    std::strcpy(record.names.driver, "amdgpu");
    std::strcpy(record.names.timeline, "gfx 1\x1b");
    const Event waited = event_of(record, a_traced_process(), offset);
    CHECK(parsed(waited) == json({{"time", "2023-11-14T22:13:20.123461000Z"},
                                  {"duration_ns", 3'000'000},
                                  {"pid", 100},
                                  {"tid", 101},
                                  {"ppid", 99},
                                  {"comm", "train\uFFFD"},
                                  {"container", container},
                                  {"event", "wait_end"},
                                  {"driver", "amdgpu"},
                                  {"timeline", "gfx 1\uFFFD"},
                                  {"context", 40'000'000'000},
                                  {"seqno", 7}}));
    CHECK(columns(waited) ==
          "100 101 99 train\uFFFD wait_end 3.000ms - driver=amdgpu timeline=\"gfx 1\uFFFD\" "
          "context=40000000000 seqno=7");

    // Somebody's, who is not known, in an interrupt.
    record.head = {ended, 0, 0, FENCE_RECORD + FENCE_signaled};
    record.tid = 0;
    record.has_duration = 0;
    const json signaled = parsed(event_of(record, {}, offset));
    CHECK(signaled["event"] == "signaled");
    CHECK(signaled["duration_ns"].is_null());
    CHECK(signaled["pid"].is_null());
    CHECK(signaled["tid"].is_null());
    CHECK(signaled["ppid"].is_null());
    CHECK(signaled["comm"] == "unknown");
}

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
                {"container", container},
                {"syscall", "dup"},
                {"result", -9},
                {"error", "EBADF"},
                {"arguments", {"0xffffffffffffffff", "0x2", "0x3", "0x4", "0x5", "0x6"}}}));
    CHECK(columns(event) ==
          "100 101 99 train\uFFFD dup 1.5us EBADF "
          "arguments=(0xffffffffffffffff,0x2,0x3,0x4,0x5,0x6)");

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
    CHECK(columns(event) == "100 101 99 train\uFFFD rt_sigreturn 1.5us -");
}

// Records of /dev/kmsg.
#include "exporter/system/kernel_log.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <vector>

using namespace gpusnoop;

TEST_CASE("a record of the kernel's log has a number, who wrote it, and its text") {
    const auto own = parse_kernel_log(
        "3,339,5140900,-;NVRM: Xid (PCI:0000:3b:00): 79, x\n SUBSYSTEM=pci\n DEVICE=+pci:0\n");
    REQUIRE(own);
    CHECK(own->number == 339);
    CHECK(!own->written_by_program);
    CHECK(own->text == "NVRM: Xid (PCI:0000:3b:00): 79, x");
    // User space has the facility 1, whatever it asks for; 0 becomes 1.
    const auto written = parse_kernel_log("12,340,5140901,-,caller=T1;hello\n");
    REQUIRE(written);
    CHECK(written->written_by_program);
    CHECK(written->text == "hello");
}

TEST_CASE("escapes of the kernel's log are read back") {
    const auto line = parse_kernel_log("4,1,2,-;a\\x0ab\\x5cx41 \\x \\xzz \\x4\n");
    REQUIRE(line);
    CHECK(line->text == "a\nb\\x41 \\x \\xzz \\x4");
}

TEST_CASE("records that are no lines are refused") {
    for (const std::string record : {"", ";", "4;x", "4,1", "4,1,2,-", "a,1,2,-;x", "4,b,2,-;x",
                                     "99999999999999999999,1,2,-;x", ",,;x"}) {
        INFO(record);
        CHECK(!parse_kernel_log(record));
    }
}

TEST_CASE("a kernel's log that cannot be opened is an error that names it") {
    const auto opened = KernelLog::open("/nonexistent/kmsg");
    REQUIRE(!opened);
    CHECK(opened.error().message.find("/nonexistent/kmsg") != std::string::npos);
}

namespace {

// As /dev/kmsg, a socket of packets gives a whole record with each read, and none without waiting.
struct Records {
    Records() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends.data()) == 0);
        log = KernelLog(Fd(ends[0]));
        writer = Fd(ends[1]);
    }
    void add(const std::string &record) const {
        REQUIRE(::write(writer.get(), record.data(), record.size()) ==
                static_cast<ssize_t>(record.size()));
    }
    std::vector<std::uint64_t> read(std::size_t most = 100) {
        std::vector<std::uint64_t> numbers;
        log.read(most, [&](const KernelLogLine &line) { numbers.push_back(line.number); });
        return numbers;
    }

    KernelLog log{Fd()};
    Fd writer;
};

}  // namespace

TEST_CASE("lines of the kernel's log are read once, in their order") {
    Records records;
    CHECK(records.read().empty());
    records.add("6,7,1,-;a\n");
    records.add("6,8,2,-;b\n");
    CHECK(records.read() == std::vector<std::uint64_t>{7, 8});
    CHECK(records.read().empty());
    records.add("6,9,3,-;c\n");
    records.add("6,10,4,-;d\n");
    CHECK(records.read(1) == std::vector<std::uint64_t>{9});
    CHECK(records.read(1) == std::vector<std::uint64_t>{10});
    CHECK(records.log.lines_lost() == 0);
}

TEST_CASE("lines of the kernel's log that were overwritten are counted") {
    Records records;
    records.add("6,100,1,-;the first that is read: those before it are no loss\n");
    records.add("6,104,2,-;b\n");
    records.add("no record");
    records.add("6,105,3,-;c\n");
    records.add("6,107,4,-;d\n");
    CHECK(records.read() == std::vector<std::uint64_t>{100, 104, 105, 107});
    CHECK(records.log.lines_lost() == 3 + 1);
}

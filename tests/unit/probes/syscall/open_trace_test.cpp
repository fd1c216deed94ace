// Calls that open files as lines.
#include "exporter/probes/syscall/trace.h"

#include <fcntl.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "exporter/symbols/names/syscall_names.h"
#include "tests/unit/probes/event_lines.h"

using namespace gpusnoop;
using namespace gpusnoop::trace;
using namespace event_lines;
using nlohmann::json;

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

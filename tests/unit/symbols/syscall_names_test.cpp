#include "exporter/symbols/names/syscall_names.h"

#include <sys/syscall.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <string_view>

using namespace gpusnoop;

namespace {

// The numbers that a kernel header defines.
std::map<std::string, std::uint32_t> numbers_in(const std::string &path) {
    static const std::regex define(R"(^#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$)");
    std::ifstream file(path);
    std::map<std::string, std::uint32_t> numbers;
    for (std::string line; std::getline(file, line);) {
        if (std::smatch match; std::regex_match(line, match, define)) {
            numbers.emplace(match[1], static_cast<std::uint32_t>(std::stoul(match[2])));
        }
    }
    return numbers;
}

}  // namespace

TEST_CASE("the numbers of system calls are those of the kernel headers") {
#if defined(__x86_64__)
    const auto x86_64 = numbers_in("/usr/include/x86_64-linux-gnu/asm/unistd_64.h");
    REQUIRE(x86_64.size() > 350);
    for (const auto &[name, number] : x86_64) {
        INFO(name);
        CHECK(syscall_number(name, Machine::x86_64) == number);
        CHECK(syscall_name(number, Machine::x86_64) == name);
    }
#endif
    // What arm64's header is made of, with what only 32-bit machines have: *time64 and the like.
    const auto generic = numbers_in("/usr/include/asm-generic/unistd.h");
    REQUIRE(generic.size() > 300);
    const std::set<std::string> of_others = {"syscalls", "arch_specific_syscall",
                                             "sync_file_range2"};
    std::size_t checked = 0;
    for (const auto &[name, number] : generic) {
        const bool is_32_bit = number >= 403 && number <= 423;
        if (is_32_bit || of_others.contains(name)) {
            continue;
        }
        INFO(name);
        CHECK(syscall_name(number, Machine::arm64).has_value());
        // __NR3264_fstatat is newfstatat in 64 bits.
        if (name != "fstatat") {
            CHECK(syscall_number(name, Machine::arm64) == number);
        }
        checked++;
    }
    CHECK(checked > 290);
}

TEST_CASE("known numbers have their names on both machines") {
    struct Known {
        std::string_view name;
        std::optional<std::uint32_t> x86_64;
        std::optional<std::uint32_t> arm64;
    };
    for (const Known &known : {Known{"read", 0, 63},
                               {"open", 2, {}},
                               {"mmap", 9, 222},
                               {"newfstatat", 262, 79},
                               {"openat", 257, 56},
                               {"futex", 202, 98},
                               {"arch_prctl", 158, {}},
                               {"io_uring_enter", 426, 426},
                               {"mseal", 462, 462},
                               {"listns", 470, 470},
                               {"rseq_slice_yield", 471, 471},
                               {"uprobe", 336, {}}}) {
        INFO(known.name);
        CHECK(syscall_number(known.name, Machine::x86_64) == known.x86_64);
        CHECK(syscall_number(known.name, Machine::arm64) == known.arm64);
        if (known.arm64) {
            CHECK(syscall_name(*known.arm64, Machine::arm64) == known.name);
        }
        CHECK(syscall_name(*known.x86_64, Machine::x86_64) == known.name);
    }
}

TEST_CASE("no number has two names, and no name stands twice in the table") {
    for (const Machine machine : {Machine::x86_64, Machine::arm64}) {
        std::set<std::string_view> names;
        for (std::uint32_t number = 0; number < 512; number++) {
            if (const auto name = syscall_name(number, machine)) {
                CHECK(names.insert(*name).second);
                CHECK(syscall_number(*name, machine) == number);
            }
        }
        CHECK(names.size() > 300);
    }
    CHECK_FALSE(syscall_name(511));
    CHECK_FALSE(syscall_name(0xffffffff));
    CHECK(syscall_number("read") == SYS_read);
    CHECK_FALSE(syscall_number("open", Machine::arm64));
    CHECK(is_syscall("open"));
    CHECK_FALSE(is_syscall("opened"));
}

TEST_CASE("groups of system calls have names of their own") {
    CHECK(syscall_groups() == std::vector<std::string>{"file", "io", "locking", "memory", "network",
                                                       "polling", "process", "signal", "timing"});
    std::set<std::string_view> grouped;
    for (const std::string &group : syscall_groups()) {
        CHECK_FALSE(is_syscall(group));
        CHECK(syscalls_of_group(group).size() > 9);
        for (const std::string_view name : syscalls_of_group(group)) {
            INFO(name);
            CHECK(is_syscall(name));
            CHECK(grouped.insert(name).second);
        }
    }
    CHECK(syscalls_of_group("other").empty());
    CHECK(syscalls_of_group("").empty());
}

TEST_CASE("errors of system calls have their names, also those that programs never see") {
    CHECK(errno_name(ENOENT) == "ENOENT");
    CHECK(errno_name(EAGAIN) == "EAGAIN");
    CHECK(errno_name(EHWPOISON) == "EHWPOISON");
    CHECK(errno_name(512) == "ERESTARTSYS");
    CHECK(errno_name(516) == "ERESTART_RESTARTBLOCK");
    CHECK(errno_name(0) == "unknown");
    CHECK(errno_name(300) == "unknown");
    CHECK(errno_name(4095) == "unknown");
    CHECK(errno_name(0xffffffff) == "unknown");
}

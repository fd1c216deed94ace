#include "exporter/symbols/stacks/patient_reader.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/child_process.h"
#include "tests/unit/symbols/own_process.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;

TEST_CASE("words and strings of a process", "[process_memory]") {
    const std::uint64_t word = 0x0123456789abcdef;
    CHECK(read_word(own_tgid(), address_of(&word)) == word);
    CHECK_FALSE(read_word(own_tgid(), 8));
    const std::string text("one\0two", 7);
    CHECK(read_string(own_tgid(), address_of(text.data()), 100) == "one");
    CHECK(read_string(own_tgid(), address_of(text.data()), 4) == "one");
    CHECK(read_string(own_tgid(), address_of(text.data()), 2) == "on");
    CHECK(read_string(own_tgid(), address_of(text.data() + 3), 100) == "");
    CHECK(read_string(own_tgid(), address_of(text.data()), 0) == "");
}

TEST_CASE("a process that is gone has no memory", "[process_memory]") {
    const std::uint64_t word = 5;
    ChildProcess child([](const auto &tell) { tell({}); });
    CHECK(read_word(child.tgid(), address_of(&word)) == 5);
    CHECK(code_start_of(child.tgid()).has_value());
    child.end();
    CHECK_FALSE(read_word(child.tgid(), address_of(&word)));
    CHECK_FALSE(read_string(child.tgid(), address_of(&word), 8));
    CHECK_FALSE(code_start_of(child.tgid()));
}

TEST_CASE("where a program's code begins, whatever the process is called", "[process_memory]") {
    const auto plain = code_start_of(own_tgid());
    REQUIRE(plain);
    const ChildProcess child([](const auto &tell) {
        ::prctl(PR_SET_NAME, ") 7 (x) 1 2");
        tell({});
    });
    CHECK(code_start_of(child.tgid()) == plain);
}

#include "exporter/probes/frame/processes/target_table.h"

#include <fnmatch.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <string>

#include "tests/unit/sanitized.h"

using namespace gpusnoop;

namespace {

// As the programs in the kernel do it.
bool matches(const target_pattern &pattern, const std::string &name) {
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < PROCESS_COMM_BYTES; i++) {
        const auto byte = i < name.size() ? static_cast<unsigned char>(name[i]) : 0;
        state = (state << 1 & pattern.next[byte]) | (state & pattern.stays[byte]);
    }
    return (state >> pattern.whole & 1) != 0;
}

bool matches(const std::string &glob, const std::string &name) {
    const auto pattern = probes::compile_comm_pattern(glob);
    return pattern && matches(*pattern, name);
}

}  // namespace

TEST_CASE("the BPF programs match names of processes by a table") {
    CHECK(matches("python*", "python3.11"));
    CHECK(matches("*", ""));
    CHECK(matches("", ""));
    CHECK(!matches("", "a"));
    CHECK(!matches("python", "python3"));
    CHECK(matches("*thon?", "python3"));
    CHECK(matches("py[t-u]hon[!x]", "python3"));
    CHECK(!matches("py[^t]hon3", "python3"));
    CHECK(matches("a[[:digit:]]]", "a7]"));
    CHECK(matches("a\\*b", "a*b"));
    CHECK(!matches("a\\*b", "axb"));
    CHECK(matches("[]-]x", "-x"));
    CHECK(matches("fifteen-letters", "fifteen-letters"));
    CHECK(matches("***fif*teen*ters**", "fifteen-letters"));
    CHECK(matches("\xc3*", "\xc3\xa9"));
    // More than a name has.
    CHECK(!probes::compile_comm_pattern("sixteen-letters-").has_value());
    // What these match, the C library decides.
    CHECK(!probes::compile_comm_pattern("[ab").has_value());
    CHECK(!probes::compile_comm_pattern("ab\\").has_value());
}

TEST_CASE("the table matches what fnmatch matches") {
    std::mt19937 random(23);  // NOLINT(cert-msc*): the same each time
    const auto text = [&](const std::string &letters, std::size_t longest) {
        std::string made(random() % (longest + 1), ' ');
        for (char &letter : made) {
            letter = letters[random() % letters.size()];
        }
        return made;
    };
    int compiled = 0;
    constexpr int rounds = random_rounds(30'000);
    for (int i = 0; i < rounds; i++) {
        const std::string glob = text("ab-]**?[[!^\\:", 10);
        const auto pattern = probes::compile_comm_pattern(glob);
        compiled += pattern ? 1 : 0;
        for (int j = 0; pattern && j < 10; j++) {
            const std::string name = text("ab-][\\!", 8);
            CAPTURE(glob, name);
            REQUIRE(matches(*pattern, name) == (::fnmatch(glob.c_str(), name.c_str(), 0) == 0));
        }
    }
    CHECK(compiled > rounds / 3);
}

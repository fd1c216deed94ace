// Lines of Python's source, by the tables of code objects.
#include "exporter/probes/frame/python/code_names.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/pythons.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

std::string from_hexadecimal(const std::string &hexadecimal) {
    std::string bytes;
    for (std::size_t at = 0; at + 1 < hexadecimal.size(); at += 2) {
        bytes += static_cast<char>(std::stoi(hexadecimal.substr(at, 2), nullptr, 16));
    }
    return bytes;
}

std::vector<std::uint32_t> lines_of(PythonLineTable kind, const std::string &table,
                                    std::int32_t first_line, std::int64_t units) {
    std::vector<std::uint32_t> lines;
    for (std::int64_t unit = 0; unit < units; unit++) {
        lines.push_back(python_line(kind, table, first_line, unit).value_or(0));
    }
    return lines;
}

using Lines = std::vector<std::uint32_t>;

std::string output_of(const std::string &command) {
    std::string output;
    std::FILE *const pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    char buffer[65'536];
    while (const std::size_t got = std::fread(buffer, 1, sizeof(buffer), pipe)) {
        output.append(buffer, got);
    }
    CHECK(::pclose(pipe) == 0);
    return output;
}

}  // namespace

TEST_CASE("a location table says the line of each instruction") {
    // Short; two lines further; without a location; 64 lines back, with columns; without columns.
    const std::string table = from_hexadecimal(
        "8000"
        "e10102"
        "f8"
        "f04102000102"
        "e84100");
    CHECK(lines_of(PythonLineTable::locations, from_hexadecimal("8000"), 10, 2) == Lines{10, 0});
    CHECK(lines_of(PythonLineTable::locations, from_hexadecimal("810000"), 10, 3) ==
          Lines{10, 10, 0});
    // 11 lines less 10 further.
    CHECK(lines_of(PythonLineTable::locations, from_hexadecimal("d80102"), 10, 1) == Lines{11});
    CHECK(lines_of(PythonLineTable::locations,
                   from_hexadecimal("e00102"
                                    "8000"),
                   10, 2) == Lines{12, 12});
    // No location, and then the line as before.
    CHECK(lines_of(PythonLineTable::locations,
                   from_hexadecimal("f9"
                                    "8000"),
                   10, 3) == Lines{0, 0, 10});
    // No columns: 3 lines back; 33 further, in two groups.
    CHECK(lines_of(PythonLineTable::locations,
                   from_hexadecimal("e807"
                                    "e84201"),
                   10, 2) == Lines{7, 40});
    // All of it: 5 lines further, ending 1 further, columns 1 and 2.
    CHECK(lines_of(PythonLineTable::locations, from_hexadecimal("f00a010203"), 10, 1) == Lines{15});
    CHECK(python_line(PythonLineTable::locations, from_hexadecimal("e80a"), 10, -1) == 10);
    CHECK_FALSE(
        python_line(PythonLineTable::locations, from_hexadecimal("e83f"), 10, 0));  // line -21
    CHECK_FALSE(python_line(PythonLineTable::locations, "", 10, 0));
    CHECK_FALSE(python_line(PythonLineTable::locations, table, 10, std::int64_t{1} << 62));
}

TEST_CASE("a table of 3.10 says the line of each instruction") {
    // 2 bytes 1 further, 4 bytes without a line, 2 bytes 3 back, none, 2 bytes as before.
    const std::string table = from_hexadecimal(
        "0201"
        "0480"
        "02fd"
        "0005"
        "0200");
    CHECK(lines_of(PythonLineTable::deltas, table, 10, 6) == Lines{11, 0, 0, 8, 13, 0});
    CHECK(python_line(PythonLineTable::deltas, table, 10, -1) == 10);
    CHECK_FALSE(python_line(PythonLineTable::deltas, "x", 10, 0));
}

TEST_CASE("the lines of the standard library's functions are those that Python says") {
    const std::string interpreter = GENERATE(from_range(harness::python_commands()));
    CAPTURE(interpreter);
    if (!std::filesystem::exists(harness::python_words(interpreter).back())) {
        SKIP("scripts/setup.sh --tests has not unpacked it");
    }
    const auto kind =
        interpreter.ends_with("python3.10") ? PythonLineTable::deltas : PythonLineTable::locations;
    std::istringstream objects(
        output_of(interpreter + " -I " + GPUSNOOP_SOURCE_DIR "/tests/fakes/hangs/line_tables.py"));
    std::size_t instructions = 0;
    for (std::string object; std::getline(objects, object);) {
        std::istringstream words(object);
        std::int32_t first_line = 0;
        std::string table;
        words >> first_line >> table;
        Lines lines;
        for (std::uint32_t line = 0; words >> line;) {
            lines.push_back(line);
        }
        instructions += lines.size();
        CAPTURE(first_line, table);
        CHECK(lines_of(kind, from_hexadecimal(table), first_line,
                       static_cast<std::int64_t>(lines.size())) == lines);
    }
    CHECK(instructions > 10'000);
}

TEST_CASE("any bytes are a table of lines") {
    std::mt19937 random(20'260'301);  // NOLINT: the same in each run
    for (int round = 0; round < 20'000; round++) {
        std::string table(random() % 200, '\0');
        for (char &byte : table) {
            byte = static_cast<char>(random());
        }
        const auto kind = random() % 2 == 0 ? PythonLineTable::deltas : PythonLineTable::locations;
        const auto line =
            python_line(kind, table, static_cast<std::int32_t>(random()), random() % 300);
        CHECK(line.value_or(1) > 0);
    }
}

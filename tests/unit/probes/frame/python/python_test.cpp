// Python's functions on a stack, and their names.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "bpf/lib/python/layout.h"
#include "exporter/probes/frame/python/code_names.h"
#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/probes/frame/python/stacks.h"
#include "tests/unit/probes/frame/python/made_memory.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

std::vector<symbols::Frame> frames(const std::vector<std::string> &names) {
    std::vector<symbols::Frame> stack;
    for (const std::string &name : names) {
        stack.push_back({.function = name, .module = "python3.11", .offset = 1});
    }
    return stack;
}

PythonFrame python(const std::string &name, bool is_called_by_c = false) {
    return {.function = {.function = "a.py:" + name, .module = "a.py", .offset = 0},
            .is_called_by_c = is_called_by_c};
}

std::string merged(const std::vector<std::string> &native,
                   const std::vector<PythonFrame> &functions) {
    auto stack = frames(native);
    std::vector<symbols::CodePlace> places;
    for (std::size_t i = 0; i < native.size(); i++) {
        places.push_back({.segment = nullptr, .offset = i + 1});
    }
    merge_python(stack, places, functions);
    CHECK(places.size() == stack.size());
    std::string text;
    for (std::size_t i = 0; i < stack.size(); i++) {
        CHECK((places[i].offset == 0) == stack[i].function.starts_with("a.py:"));
        text += (text.empty() ? "" : " ") + stack[i].function;
    }
    return text;
}

const std::string loop = "_PyEval_EvalFrameDefault";

// A PyASCIIObject or PyCompactUnicodeObject, by default of Python 3.11.
std::string object(const std::string &units, std::uint64_t length, std::uint32_t width,
                   bool is_ascii, std::size_t ascii_bytes = 48) {
    std::string bytes(is_ascii ? ascii_bytes : 72, '\0');
    const std::uint32_t state = width << 2U | 0x20U | (is_ascii ? 0x40U : 0U);
    std::memcpy(&bytes[16], &length, sizeof(length));
    std::memcpy(&bytes[32], &state, sizeof(state));
    return bytes + units;
}

}  // namespace

TEST_CASE("each run of the interpreter's loop is replaced by its functions") {
    CHECK(merged({"read", loop, "call", loop, "main"},
                 {python("inner", true), python("middle"), python("<module>", true)}) ==
          "read a.py:inner call a.py:middle a.py:<module> main");
    CHECK(merged({"read", loop, "main"}, {python("f"), python("<module>", true)}) ==
          "read a.py:f a.py:<module> main");
}

TEST_CASE("without all runs, Python's functions are inside of what begins the program") {
    const std::vector<PythonFrame> two = {python("inner", true), python("<module>", true)};
    CHECK(merged({"read", loop, "main"}, two) == "read a.py:inner a.py:<module> main");
    CHECK(merged({"read", "main", "_start"}, two) == "read a.py:inner a.py:<module> main _start");
    CHECK(merged({"read", "?"}, two) == "read ? a.py:inner a.py:<module>");
    CHECK(merged({}, two) == "a.py:inner a.py:<module>");
    CHECK(merged({loop, loop, loop, "main"}, two) == "a.py:inner a.py:<module> main");
}

TEST_CASE("the interpreter's loop has other names in some builds") {
    const std::vector<PythonFrame> two = {python("inner", true), python("<module>", true)};
    const std::string cold = loop + ".cold";
    const std::string call = "_TAIL_CALL_CALL";
    CHECK(merged({"read", cold, "call", loop, "main"}, two) ==
          "read a.py:inner call a.py:<module> main");
    // An instruction of the loop around it.
    CHECK(merged({"read", call, loop, "call", "_TAIL_CALL_CALL_KW.llvm.1", loop, "main"}, two) ==
          "read a.py:inner call a.py:<module> main");
    CHECK(merged({"read", call, "call", call, "main"}, two) ==
          "read a.py:inner call a.py:<module> main");
    CHECK(merged({"read", loop + "More", loop, "main"}, {python("f", true)}) ==
          "read " + loop + "More a.py:f main");
}

TEST_CASE("a walk that ends early keeps what it has") {
    CHECK(merged({"read", loop, "call", loop, "main"}, {python("inner", true), python("middle")}) ==
          "read a.py:inner call a.py:middle main");
}

TEST_CASE("a stack without Python stays as it is") {
    CHECK(merged({"read", loop, "main"}, {}) == "read " + loop + " main");
}

TEST_CASE("a text of Python in each of its forms") {
    const PythonCodeLayout layout = python_by_version(0x030b02f0)->code;
    CHECK(python_text(object("train.py", 8, 1, true), layout) == "train.py");
    CHECK(python_text(object("gr\xf6\xdf"
                             "e",
                             5, 1, false),
                      layout) == "größe");
    CHECK(python_text(object(std::string("\x95\x03\x41\x00", 4), 2, 2, false), layout) == "ΕA");
    CHECK(python_text(object(std::string("\x0d\xf4\x01\x00", 4), 1, 4, false), layout) ==
          "\xf0\x9f\x90\x8d");
    // Longer than what was read of it.
    CHECK(python_text(object("abc", 1'000'000'000'000, 1, true), layout) == "abc");
    CHECK(python_text(object("abc", ~std::uint64_t{0}, 4, false), layout).empty());
    // Not in the object, of no known width, and no object.
    CHECK(python_text(std::string(100, '\0'), layout).empty());
    CHECK(python_text(object("abc", 3, 3, true), layout).empty());
    CHECK(python_text("", layout).empty());
    CHECK(python_text(std::string(30, '\xff'), layout).empty());
}

TEST_CASE("Python's structures are known by its version") {
    CHECK(python_by_version(0x030b07f0)->frames.thread_id == 160);
    CHECK(python_by_version(0x030c01f0)->frames.thread_id == 144);
    CHECK(python_by_version(0x030b07f0)->frame_instruction == 56);
    CHECK_FALSE(python_by_version(0x030a00f0));
    CHECK_FALSE(python_by_version(0x030d00f0));
}

TEST_CASE("Python 3.13 and 3.14 say where their members are") {
    std::vector<std::uint64_t> words(49);
    for (std::size_t i = 0; i < words.size(); i++) {
        words[i] = 1000 + i;
    }
    std::memcpy(words.data(), "xdebugpy", 8);
    words[1] = 0x030d05f0;
    words[2] = 0;
    const auto read = [&] {
        return python_by_offsets(
            {reinterpret_cast<const char *>(words.data()), words.size() * sizeof(words[0])});
    };
    REQUIRE(read());
    CHECK(read()->frames.interpreters == 1005);
    CHECK(read()->frames.thread_frame == 1023);
    CHECK(read()->frames.frame_owner == 1033);
    CHECK(read()->frame_instruction == 1031);
    CHECK(read()->code.qualified_name == 1037);
    CHECK(read()->code.instructions == 1043);
    CHECK(read()->is_for_kernel);
    words[1] = 0x030e00f0;
    REQUIRE(read());
    CHECK(read()->frames.thread_id == 1028);
    CHECK(read()->frames.thread_frame == 1026);
    CHECK(read()->frames.frame_owner == 1036);
    CHECK(read()->frame_instruction == 1034);
    CHECK(read()->code.qualified_name == 1042);
    CHECK(read()->code.instructions == 1048);
    CHECK(read()->is_for_kernel);
    words[2] = 1;  // free-threaded
    CHECK_FALSE(read());
    words[2] = 0;
    words[1] = 0x030f00f0;
    CHECK_FALSE(read());
    words[1] = 0x030d05f0;
    words[0] = 0;
    CHECK_FALSE(read());
    CHECK_FALSE(python_by_offsets("xdebugpy"));
}

TEST_CASE("Python 3.10 is known by the name of its file") {
    CHECK(python_by_name("python3.10"));
    CHECK(python_by_name("libpython3.10.so.1.0"));
    CHECK_FALSE(python_by_name("python3.1"));
    CHECK_FALSE(python_by_name("python3.9"));
    CHECK_FALSE(python_by_name("python3"));
}

TEST_CASE("the names of a code object that is gone are not told") {
    const PythonCodeLayout layout = python_by_version(0x030c00f0)->code;
    constexpr std::uint64_t code = 0x10000;
    constexpr std::uint64_t file = 0x20000;
    constexpr std::uint64_t function = 0x30000;
    MadeMemory memory;
    memory.put(code + layout.file_name, file);
    memory.put(code + layout.qualified_name, function);
    memory.put_bytes(file, object("train.py", 8, 1, true, layout.ascii_text));
    memory.put_bytes(function, object("step", 4, 1, true, layout.ascii_text));
    std::array<__u64, PYTHON_IDENTITY_WORDS> words{};
    const auto members =
        memory.read_memory(made_process, code + python_identity_offset(layout), sizeof(words));
    REQUIRE(members.value().size() == sizeof(words));
    std::memcpy(words.data(), members->data(), sizeof(words));
    const std::uint32_t identity = static_cast<std::uint32_t>(python_identity(words.data()));
    const auto name_with = [&](std::uint64_t references) {
        memory.put(code, references);
        return python_place(memory, made_process, layout, {.code = code}, identity)
            .frame()
            .function;
    };
    CHECK(name_with(1) == "train.py:step");
    CHECK(name_with(0xffff'ffff) == "train.py:step");            // immortal
    CHECK(name_with(0x0040'0000'c000'0000) == "train.py:step");  // the same in 3.14, with a flag
    CHECK(name_with(0).empty());
    CHECK(name_with(0x7f12'3456'7890).empty());  // the next free block
    CHECK(name_with(0x5555'0000'0010).empty());
}

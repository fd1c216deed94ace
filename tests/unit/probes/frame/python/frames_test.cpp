// Frames of Python's threads, in a memory that the test makes.
#include "exporter/probes/frame/python/frames.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "exporter/probes/frame/python/code_names.h"
#include "tests/unit/probes/frame/python/made_memory.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

constexpr std::uint64_t runtime = 0x10'0000;
constexpr std::uint64_t interpreter = 0x20'0000;
constexpr std::uint64_t state = 0x30'0000;
constexpr std::uint64_t c_frame = 0x38'0000;
constexpr std::uint64_t frames_begin = 0x40'0000;
constexpr std::uint64_t code = 0x80'0000;
constexpr std::uint64_t frame_apart = 0x100;
constexpr std::uint64_t state_apart = 0x1000;

// However a process lies: its states, twice the handles and the frame of each, and its frames.
constexpr std::size_t most_reads =
    1 + 2 * max_python_interpreters + 5 * max_python_states + 2 * max_python_calls;

PythonInterpreter made_python(std::uint64_t version) {
    PythonInterpreter python = *python_by_version(version);
    python.frames.runtime = runtime;
    return python;
}

PythonInterpreter python_3_12_of_test() {
    return made_python(0x030c0000);
}

// One thread, and a frame for each function: the places of its code objects, innermost first.
struct MadePython {
    PythonInterpreter python;
    MadeMemory memory{};

    explicit MadePython(const PythonInterpreter &of) : python(of) {
        memory.put(runtime + python.frames.interpreters, interpreter);
        memory.put(interpreter + python.frames.interpreter_next, std::uint64_t{0});
        memory.put(interpreter + python.frames.interpreter_threads, state);
        add_state(0, 7, frames_begin);
    }
    void add_state(std::uint64_t index, std::uint64_t id, std::uint64_t frame,
                   std::uint64_t next = 0) {
        const std::uint64_t at = state + index * state_apart;
        const std::uint64_t in_c = c_frame + index * state_apart;
        memory.put(at + python.frames.thread_next, next);
        memory.put(at + python.frames.thread_id, id);
        memory.put(at + python.frames.thread_frame, python.frames.c_frame == 0 ? frame : in_c);
        if (python.frames.c_frame != 0) {
            memory.put(in_c + python.frames.c_frame - 1, frame);
        }
    }
    void add_frame(std::uint64_t index, std::uint64_t of, std::uint64_t previous,
                   std::uint8_t owner = 0) {
        const std::uint64_t at = frames_begin + index * frame_apart;
        memory.put(at + python.frames.frame_code, of);
        memory.put(at + python.frames.frame_previous, previous);
        memory.put(at + python.frames.frame_owner, owner);
        memory.put(at + python.frame_instruction, of + python.code.instructions + 2 * index);
    }
    std::vector<PythonCall> calls(std::uint32_t id = 7) {
        const auto states = python_states(python, made_process, memory.reader());
        CHECK(states.size() <= max_python_states);
        auto found = python_calls(python, made_process, id, states, memory.reader());
        CHECK(found.size() <= max_python_calls);
        CHECK(memory.reads <= most_reads);
        return found;
    }
};

constexpr std::uint64_t frame_at(std::uint64_t index) {
    return frames_begin + index * frame_apart;
}

}  // namespace

TEST_CASE("the frames of a Python thread are its functions and where they are") {
    MadePython made(python_3_12_of_test());
    made.add_frame(0, code, frame_at(1));
    made.add_frame(1, 0, frame_at(2), 3);  // C has called the one above
    made.add_frame(2, code + 0x1000, frame_at(3));
    made.add_frame(3, code + 0x2000, frame_at(4));
    made.add_frame(4, 0, 0, 3);
    const auto calls = made.calls();
    REQUIRE(calls.size() == 3);
    CHECK(calls[0].code == code);
    CHECK(calls[0].instruction == 0);
    CHECK(calls[0].is_called_by_c);
    CHECK(calls[1].code == code + 0x1000);
    CHECK(calls[1].instruction == 2);
    CHECK_FALSE(calls[1].is_called_by_c);
    CHECK(calls[2].instruction == 3);
    CHECK(calls[2].is_called_by_c);
    CHECK(made.calls(8).empty());
}

TEST_CASE("an address of code with a tag is that of the code object") {
    MadePython made(python_3_12_of_test());
    made.add_frame(0, code, 0);
    made.memory.put(frame_at(0) + made.python.frames.frame_code, code | 1U);
    const auto calls = made.calls();
    REQUIRE(calls.size() == 1);
    CHECK(calls[0].code == code);
    CHECK(calls[0].instruction == 0);
}

TEST_CASE("a thread with states in several interpreters is in the one that has frames") {
    MadePython made(python_3_12_of_test());
    constexpr std::uint64_t other = interpreter + 0x8000;
    made.add_frame(0, code, 0);
    made.memory.put(interpreter + made.python.frames.interpreter_next, other);
    made.memory.put(other + made.python.frames.interpreter_threads, state + state_apart);
    made.add_state(1, 7, frame_at(0));
    SECTION("the second") {
        made.add_state(0, 7, 0);
    }
    SECTION("the first") {
        made.add_state(0, 7, frame_at(0));
        made.add_state(1, 7, 0);
    }
    CHECK(made.calls().size() == 1);
}

TEST_CASE("a state with the id of another process's thread belongs to the thread of its handle") {
    MadePython made(python_3_12_of_test());
    made.add_frame(0, code, 0);
    made.add_state(0, 99, frame_at(0));
    constexpr std::uint64_t handle = 0xa0'0000;
    made.memory.put(state + made.python.thread_handle, handle);
    CHECK(made.calls().empty());
#if defined(__x86_64__)
    const std::uint64_t id_at = GENERATE(720, 48);  // glibc, musl
#else
    const std::uint64_t id_at = GENERATE(208, 32);
#endif
    made.memory.put(handle + id_at, std::uint32_t{7});
    CHECK(made.calls().size() == 1);
    CHECK(made.calls(8).empty());
}

TEST_CASE("lists of Python's that do not end are read up to a limit") {
    MadePython made(python_3_12_of_test());
    SECTION("frames in a circle") {
        made.add_frame(0, code, frame_at(1));
        made.add_frame(1, code, frame_at(0));
        CHECK(made.calls().size() == max_python_calls);
    }
    SECTION("a frame of no function that is its own caller") {
        made.add_frame(0, code, frame_at(0), 3);
        CHECK(made.calls().empty());
    }
    SECTION("10,000 frames") {
        for (std::uint64_t i = 0; i < 10'000; i++) {
            made.add_frame(i, code + 0x1000 * i, frame_at(i + 1));
        }
        const auto calls = made.calls();
        REQUIRE(calls.size() == max_python_calls);
        CHECK(calls.front().code == code);
    }
    SECTION("states in a circle") {
        made.add_state(0, 9, frame_at(0), state);
        CHECK(made.calls().empty());
    }
    SECTION("interpreters in a circle") {
        made.memory.put(interpreter + made.python.frames.interpreter_next, interpreter);
        made.add_frame(0, code, 0);
        CHECK(made.calls().size() == 1);
        CHECK(made.calls(8).empty());
    }
    SECTION("frames that are not mapped") {
        made.add_frame(0, code, 0xdead'0000);
        CHECK(made.calls().size() == 1);
        made.add_state(0, 7, ~std::uint64_t{0});
        CHECK(made.calls().empty());
    }
    SECTION("no interpreter") {
        made.memory.pages.clear();
        CHECK(made.calls().empty());
    }
}

TEST_CASE("an interpreter of random memory costs no more reads than any") {
    std::mt19937_64 random(20'260'301);  // NOLINT: the same in each run
    const auto version = GENERATE(0x030b0000, 0x030c0000);
    MadePython made(made_python(static_cast<std::uint64_t>(version)));
    for (std::uint64_t i = 0; i < 40; i++) {
        made.add_frame(i, code + 0x1000 * i, frame_at(i + 1));
    }
    const std::uint64_t places[] = {runtime, interpreter, state, c_frame, frames_begin, code};
    std::vector<std::uint64_t> pages;
    for (const auto &[page, bytes] : made.memory.pages) {
        pages.push_back(page);
    }
    for (int round = 0; round < 2'000; round++) {
        for (int change = 0; change < 4; change++) {
            // Numbers, and addresses of anything in it.
            const std::uint64_t word = random() % 2 == 0
                                           ? random() >> random() % 64
                                           : places[random() % 6] + random() % 0x2000 / 8 * 8;
            made.memory.put(
                pages[random() % pages.size()] * MadeMemory::page_bytes + random() % 64 * 8, word);
        }
        made.memory.reads = 0;
        for (const PythonCall &call : made.calls(random() % 2 == 0 ? 7 : 8)) {
            made.memory.reads = 0;
            made.memory.bytes_read = 0;
            (void)python_place(made.memory, made_process, made.python.code, call.code,
                               call.instruction);
            CHECK(made.memory.reads <= 5);
            CHECK(made.memory.bytes_read <= 128 * 1024);
        }
        made.memory.reads = 0;
    }
}

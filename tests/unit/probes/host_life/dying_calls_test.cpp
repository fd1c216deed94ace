// What the kernel has copied of a frame of Python's, whose process has ended.
#include "exporter/probes/host_life/dying_calls.h"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

constexpr PythonCodeLayout dying_layout{.file_name = 112,
                                        .qualified_name = 128,
                                        .ascii_text = 40,
                                        .unicode_text = 56,
                                        .first_line = 68,
                                        .line_table = 136,
                                        .instructions = 192,
                                        .lines = PythonLineTable::locations,
                                        .has_version = true};

// A string object.
std::uint32_t put_text(char *object, const std::string &text) {
    const std::uint64_t length = text.size();
    const std::uint32_t state = 1U << 2U | 0x20U | 0x40U;
    std::memcpy(object + 16, &length, sizeof(length));
    std::memcpy(object + 32, &state, sizeof(state));
    std::memcpy(object + dying_layout.ascii_text, text.data(), text.size());
    return static_cast<std::uint32_t>(dying_layout.ascii_text + text.size());
}

// At line 12: the second of two instructions, a line further each.
dying_frame_record dying_frame(const std::string &file, const std::string &function) {
    dying_frame_record frame{};
    frame.first_line = 10;
    frame.instruction = 1;
    frame.file_bytes = put_text(frame.file, file);
    frame.function_bytes = put_text(frame.function, function);
    constexpr char table[] = "\xd8\x01\x02\xd8\x01\x02";  // in single units
    std::memcpy(frame.table + 32, table, sizeof(table) - 1);
    frame.table_bytes = 32 + sizeof(table) - 1;
    return frame;
}

}  // namespace

TEST_CASE("a copied frame of Python's is a place in its source") {
    const dying_frame_record frame = dying_frame("/srv/train.py", "Trainer.step");
    CHECK(place_of(frame, dying_layout).frame().function == "train.py:Trainer.step:12");
    dying_frame_record first = frame;
    first.instruction = 0;
    CHECK(place_of(first, dying_layout).line == 11);
    // The copy of the table ends before the instruction.
    dying_frame_record cut = frame;
    cut.table_bytes -= 3;
    CHECK(place_of(cut, dying_layout).frame().function == "train.py:Trainer.step");
    cut.table_bytes = 7;
    CHECK(place_of(cut, dying_layout).frame().function == "train.py:Trainer.step");
}

TEST_CASE("a copied frame whose names could not be read is unknown") {
    dying_frame_record frame = dying_frame("/srv/train.py", "step");
    frame.file_bytes = 0;
    CHECK(place_of(frame, dying_layout).path.empty());
    frame = dying_frame("/srv/train.py", "step");
    frame.function_bytes = 20;
    CHECK(place_of(frame, dying_layout).path.empty());
    // A process can write anything there.
    std::memset(&frame, 0xff, sizeof(frame));
    CHECK(place_of(frame, dying_layout).path.empty());
}

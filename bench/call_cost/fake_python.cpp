#include "bench/call_cost/fake_python.h"

#include <unistd.h>

#include <cstring>

namespace gpusnoop::bench {

namespace {

constexpr std::uint64_t python_3_12 = 0x030c0000;

template <typename Object>
std::uint64_t address_of(const Object &object) {
    return reinterpret_cast<std::uint64_t>(object.data());
}

template <typename Object>
void put(Object &object, std::size_t offset, std::uint64_t word) {
    std::memcpy(reinterpret_cast<char *>(object.data()) + offset, &word, sizeof(word));
}

}  // namespace

FakePython::FakePython(std::size_t functions)
    : objects_(4 + 2 * functions), python_(*probes::python_by_version(python_3_12)) {
    python_layout &layout = python_.frames;
    Object &runtime = objects_[0];
    Object &interpreter = objects_[1];
    Object &thread = objects_[2];
    Object &current = objects_[3];
    layout.runtime = address_of(runtime);
    put(runtime, layout.interpreters, address_of(interpreter));
    put(interpreter, layout.interpreter_threads, address_of(thread));
    put(thread, layout.thread_id, static_cast<std::uint64_t>(::gettid()));
    put(thread, layout.thread_frame, address_of(current));
    Object *callee = &current;
    std::size_t offset = layout.c_frame - 1;
    for (std::size_t i = 0; i < functions; i++) {
        Object &frame = objects_[4 + 2 * i];
        const Object &code = objects_[5 + 2 * i];
        put(*callee, offset, address_of(frame));
        put(frame, layout.frame_code, address_of(code));
        put(frame, python_.frame_instruction, address_of(code) + python_.code.instructions);
        callee = &frame;
        offset = layout.frame_previous;
    }
}

}  // namespace gpusnoop::bench

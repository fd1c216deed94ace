// The structures that a Python interpreter has of a thread and its functions, in a program that is
// none. A test walks them, too.
#pragma once

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "exporter/probes/frame/python/code_names.h"
#include "exporter/probes/frame/python/interpreter.h"

namespace gpusnoop::bench {

class FakePython {
public:
    using Object = std::array<std::uint64_t, 64>;

    // The calling thread is in so many functions.
    FakePython(const probes::PythonInterpreter &python, std::size_t functions)
        : python_(python), objects_(first_frame + 2 * functions) {
        python_layout &layout = python_.frames;
        auto &[runtime, interpreter, thread, c_frame] = *reinterpret_cast<Heads *>(objects_.data());
        layout.runtime = address_of(runtime);
        put(runtime, layout.interpreters, address_of(interpreter));
        put(interpreter, layout.interpreter_threads, address_of(thread));
        put(thread, layout.thread_id, static_cast<std::uint64_t>(::gettid()));
        const bool has_c_frame = layout.c_frame != 0;
        put(thread, layout.thread_frame, address_of(c_frame));
        Object *callee = has_c_frame ? &c_frame : &thread;
        std::size_t caller_at = has_c_frame ? layout.c_frame - 1 : layout.thread_frame;
        for (std::size_t i = 0; i < functions; i++) {
            put(*callee, caller_at, address_of(frame(i)));
            put(frame(i), layout.frame_code, address_of(code(i)));
            put(frame(i), python_.frame_instruction,
                address_of(code(i)) + python_.code.instructions + 2 * i);
            if (const std::uint32_t name = probes::python_identity_name(python_.code); name != 0) {
                put(code(i), probes::python_identity_offset(python_.code) + 8 * name,
                    address_of(code(i)) + name_at);
            }
            callee = &frame(i);
            caller_at = layout.frame_previous;
        }
    }
    FakePython(const FakePython &) = delete;
    FakePython &operator=(const FakePython &) = delete;

    [[nodiscard]] const probes::PythonInterpreter &interpreter() const { return python_; }
    // Innermost first.
    [[nodiscard]] Object &frame(std::size_t i) { return objects_.at(first_frame + 2 * i); }
    [[nodiscard]] Object &code(std::size_t i) { return objects_.at(first_frame + 2 * i + 1); }
    // All of it.
    [[nodiscard]] std::vector<Object> &objects() { return objects_; }

    static std::uint64_t address_of(const Object &object) {
        return reinterpret_cast<std::uint64_t>(object.data());
    }
    template <typename Value>
    static void put(Object &object, std::size_t offset, Value value) {
        std::memcpy(reinterpret_cast<char *>(object.data()) + offset, &value, sizeof(value));
    }
    // In the object of a function's code: that of its name.
    static constexpr std::size_t name_at = 256;

private:
    using Heads = std::array<Object, 4>;
    static constexpr std::size_t first_frame = std::tuple_size_v<Heads>;

    probes::PythonInterpreter python_;
    std::vector<Object> objects_;
};

}  // namespace gpusnoop::bench

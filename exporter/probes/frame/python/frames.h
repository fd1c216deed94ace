// Follows the frames of Python's threads in the memory of their process, which may change and may
// mean to confuse: no walk reads more than its limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/symbols/stacks/patient_reader.h"

namespace gpusnoop::probes {

inline constexpr std::size_t max_python_interpreters = 256;
inline constexpr std::size_t max_python_states = 1024;
inline constexpr std::size_t max_python_calls = 128;

// A PyThreadState. A thread has one in each interpreter that it has been in.
struct PythonState {
    std::uint32_t id = 0;      // of its thread, as gettid(); 0: not known
    std::uint64_t handle = 0;  // the same, as pthread_self()
    std::uint64_t frame = 0;   // or the struct _PyCFrame that has the frame
};

// A function that a thread is in.
struct PythonCall {
    std::uint64_t code = 0;        // address of its code object
    std::int64_t instruction = 0;  // as in python_line()
    bool is_called_by_c = false;   // as in PythonFrame
};

// Of all interpreters of the process.
[[nodiscard]] std::vector<PythonState> python_states(const PythonInterpreter &python,
                                                     std::uint32_t tgid,
                                                     const symbols::ReadMemory &read);

// The innermost first. Empty: the thread runs no Python. `id` is the thread's in the innermost
// namespace of ids that it is in. A process forked by 3.11.0 or 3.11.1 has the id of its parent's
// thread in its state, and 3.10 has none: these are found by the id that the C library keeps.
[[nodiscard]] std::vector<PythonCall> python_calls(const PythonInterpreter &python,
                                                   std::uint32_t tgid, std::uint32_t id,
                                                   const std::vector<PythonState> &states,
                                                   const symbols::ReadMemory &read);

// A number in bytes that were read of a process; 0 where the bytes end before it.
template <typename Number>
[[nodiscard]] Number number_at(std::string_view bytes, std::size_t offset) {
    Number number{};
    if (offset + sizeof(number) <= bytes.size()) {
        std::memcpy(&number, bytes.data() + offset, sizeof(number));
    }
    return number;
}

}  // namespace gpusnoop::probes

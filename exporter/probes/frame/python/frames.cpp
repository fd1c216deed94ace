#include "exporter/probes/frame/python/frames.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "bpf/lib/python/layout.h"

namespace gpusnoop::probes {

namespace {

// How much is read of a PyThreadState and of a frame: all members that the walk needs are in it.
constexpr std::size_t state_bytes = 512;
constexpr std::size_t frame_bytes = 128;

// Where struct pthread has the thread's id: glibc and musl.
#if defined(__x86_64__)
constexpr std::array<std::uint64_t, 2> id_of_pthread = {720, 48};
#else
constexpr std::array<std::uint64_t, 2> id_of_pthread = {208, 32};
#endif

// Of one process.
class Memory {
public:
    Memory(std::uint32_t tgid, const symbols::ReadMemory &read) : tgid_(tgid), read_(read) {}

    // 0: it cannot be read.
    [[nodiscard]] std::uint64_t word(std::uint64_t address) const {
        return symbols::read_word(tgid_, address, read_).value_or(0);
    }
    // Empty: the same.
    [[nodiscard]] std::string bytes(std::uint64_t address, std::size_t size) const {
        return address == 0 ? "" : read_(tgid_, address, size).value_or("");
    }

private:
    std::uint32_t tgid_;
    const symbols::ReadMemory &read_;
};

void add_states(const PythonInterpreter &python, std::uint64_t interpreter, const Memory &memory,
                std::vector<PythonState> &states) {
    const python_layout &layout = python.frames;
    std::uint64_t state = memory.word(interpreter + layout.interpreter_threads);
    while (state != 0 && states.size() < max_python_states) {
        const std::string bytes = memory.bytes(state, state_bytes);
        states.push_back(
            {.id = layout.thread_id == 0 ? 0 : number_at<std::uint32_t>(bytes, layout.thread_id),
             .handle = number_at<std::uint64_t>(bytes, python.thread_handle),
             .frame = number_at<std::uint64_t>(bytes, layout.thread_frame)});
        state = number_at<std::uint64_t>(bytes, layout.thread_next);
    }
}

bool is_thread(const PythonState &state, std::uint32_t id, const Memory &memory) {
    return state.handle != 0 && std::ranges::any_of(id_of_pthread, [&](std::uint64_t offset) {
               return number_at<std::uint32_t>(
                          memory.bytes(state.handle + offset, sizeof(std::uint32_t)), 0) == id;
           });
}

// Of the states that are the thread's, the frame of the first that has one: a thread that has
// entered another interpreter has a newer state there, which is listed first.
template <typename IsOwn>
std::optional<std::uint64_t> frame_in(const std::vector<PythonState> &states,
                                      const python_layout &layout, const Memory &memory,
                                      const IsOwn &is_own) {
    bool has_state = false;
    for (const PythonState &state : states) {
        if (!is_own(state)) {
            continue;
        }
        has_state = true;
        const std::uint64_t frame = layout.c_frame == 0 || state.frame == 0
                                        ? state.frame
                                        : memory.word(state.frame + layout.c_frame - 1);
        if (frame != 0) {
            return frame;
        }
    }
    return has_state ? std::optional<std::uint64_t>(0) : std::nullopt;
}

PythonCall call_of(const PythonInterpreter &python, std::string_view frame) {
    const python_layout &layout = python.frames;
    PythonCall call;
    call.code = number_at<std::uint64_t>(frame, layout.frame_code) & ~PYTHON_TAGS;
    if (python.code.instructions == 0) {
        call.instruction = number_at<std::int32_t>(frame, python.frame_instruction);
    } else {
        constexpr std::int64_t unit_bytes = 2;
        const std::uint64_t first = call.code + python.code.instructions;
        const auto at = number_at<std::uint64_t>(frame, python.frame_instruction);
        call.instruction = static_cast<std::int64_t>(at - first) / unit_bytes;
    }
    call.is_called_by_c =
        python.has_loop_for_each ||
        (layout.frame_is_entry != 0 && number_at<std::uint8_t>(frame, layout.frame_is_entry) != 0);
    return call;
}

}  // namespace

std::vector<PythonState> python_states(const PythonInterpreter &python, std::uint32_t tgid,
                                       const symbols::ReadMemory &read) {
    const Memory memory(tgid, read);
    std::vector<PythonState> states;
    std::uint64_t interpreter = memory.word(python.frames.runtime + python.frames.interpreters);
    for (std::size_t i = 0; i < max_python_interpreters && interpreter != 0; i++) {
        add_states(python, interpreter, memory, states);
        interpreter = memory.word(interpreter + python.frames.interpreter_next);
    }
    return states;
}

std::vector<PythonCall> python_calls(const PythonInterpreter &python, std::uint32_t tgid,
                                     std::uint32_t id, const std::vector<PythonState> &states,
                                     const symbols::ReadMemory &read) {
    const Memory memory(tgid, read);
    const python_layout &layout = python.frames;
    auto first =
        frame_in(states, layout, memory, [&](const PythonState &state) { return state.id == id; });
    if (!first) {
        first = frame_in(states, layout, memory,
                         [&](const PythonState &state) { return is_thread(state, id, memory); });
    }
    std::vector<PythonCall> calls;
    std::uint64_t frame = first.value_or(0);
    for (std::size_t i = 0; i < 2 * max_python_calls && calls.size() < max_python_calls; i++) {
        const std::string bytes = memory.bytes(frame, frame_bytes);
        if (bytes.empty()) {
            break;
        }
        if (layout.owner_shim != 0 &&
            number_at<std::uint8_t>(bytes, layout.frame_owner) >= layout.owner_shim) {
            if (!calls.empty()) {
                calls.back().is_called_by_c = true;
            }
        } else {
            calls.push_back(call_of(python, bytes));
        }
        frame = number_at<std::uint64_t>(bytes, layout.frame_previous);
    }
    return calls;
}

}  // namespace gpusnoop::probes

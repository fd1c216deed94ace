#include "exporter/probes/frame/python/tables.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <system_error>

#include "bpf/lib/python/stacks.h"
#include "exporter/base/log.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/probes/frame/python/code_names.h"

namespace gpusnoop::probes {

namespace {

// A stack comes before the record of its call.
constexpr std::chrono::minutes new_for{1};

}  // namespace

void PythonTables::set_interpreter(const ProcessKey &process,
                                   const PythonInterpreter &python) const {
    if (maps_.interpreters < 0 || !python.is_for_kernel || !is_running_(process)) {
        return;
    }
    const python_key key{process.since_ns, process.tgid, 0};
    const python_interpreter interpreter{.frames = python.frames,
                                         .frame_instruction = python.frame_instruction,
                                         .code_instructions = python.code.instructions,
                                         .code_identity = python_identity_offset(python.code),
                                         .identity_name = python_identity_name(python.code),
                                         .reserved = 0,
                                         .stacks = 0};
    // One that an earlier exporter has found stays as it is: its stacks are counted.
    const int error = bpf_map_update_elem(maps_.interpreters, &key, &interpreter, BPF_NOEXIST);
    if (error != 0 && error != -EEXIST) {
        log::warn("the call sites of a process have no Python functions",
                  {{"pid", process.tgid}, {"reason", std::generic_category().message(-error)}});
    } else {
        log::debug("the call sites of a process have Python functions from now on",
                   {{"pid", process.tgid}});
    }
}

std::vector<PythonStackFrame> PythonTables::stack(const ProcessKey &process,
                                                  std::uint64_t stack) const {
    std::vector<PythonStackFrame> frames;
    python_stack found{};
    if (stack <= PYTHON_STACK_BACKWARD || bpf_map_lookup_elem(maps_.stacks, &stack, &found) != 0 ||
        ProcessKey{found.tgid, found.since_ns} != process) {
        return frames;
    }
    for (std::size_t i = 0; i < std::min<std::size_t>(found.frames, PYTHON_STACK_FRAMES); i++) {
        const python_frame &frame = found.frame[i];
        frames.push_back({.call = {.code = frame.code & ~PYTHON_ENTRY,
                                   .instruction = frame.instruction,
                                   .is_called_by_c = (frame.code & PYTHON_ENTRY) != 0},
                          .identity = frame.identity});
    }
    return frames;
}

void PythonTables::forget_unused(std::chrono::nanoseconds now,
                                 const std::set<std::uint64_t> &in_use) const {
    if (maps_.interpreters < 0) {
        return;
    }
    std::map<ProcessKey, bool> known;
    const auto is_running = [&](const ProcessKey &process) {
        const auto [entry, is_new] = known.try_emplace(process);
        if (is_new) {
            entry->second = is_running_(process);
        }
        return entry->second;
    };
    std::map<ProcessKey, std::uint32_t> kept;
    std::vector<std::uint64_t> unused;
    (void)ebpf::for_each_lookup<std::uint64_t, python_stack>(
        maps_.stacks, maps_.max_stacks, [&](std::uint64_t stack, const python_stack &found) {
            const ProcessKey process{found.tgid, found.since_ns};
            const bool is_new = std::chrono::nanoseconds(found.used_ns) + new_for > now;
            if (is_running(process) && (is_new || in_use.contains(stack))) {
                kept[process]++;
            } else {
                unused.push_back(stack);
            }
        });
    for (const std::uint64_t stack : unused) {
        bpf_map_delete_elem(maps_.stacks, &stack);
    }
    std::vector<std::pair<python_key, python_interpreter>> interpreters;
    (void)ebpf::for_each_lookup<python_key, python_interpreter>(
        maps_.interpreters, PYTHON_MAX_PROCESSES,
        [&](const python_key &key, const python_interpreter &interpreter) {
            interpreters.emplace_back(key, interpreter);
        });
    for (auto &[key, interpreter] : interpreters) {
        const ProcessKey process{key.tgid, key.since_ns};
        const std::uint32_t stacks = kept[process];
        if (!is_running(process)) {
            bpf_map_delete_elem(maps_.interpreters, &key);
        } else if (std::exchange(interpreter.stacks, stacks) != stacks) {
            bpf_map_update_elem(maps_.interpreters, &key, &interpreter, BPF_EXIST);
        }
    }
}

}  // namespace gpusnoop::probes

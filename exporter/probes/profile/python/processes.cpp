#include "exporter/probes/profile/python/processes.h"

#include <bpf/bpf.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "exporter/base/log.h"
#include "exporter/base/work_limit.h"
#include "exporter/probes/profile/python/code_names.h"

namespace gpusnoop::probes {

namespace {

// In one call: before Linux 6.1, each costs a walk over all mappings of the machine.
constexpr int max_looks = 32;
// The others are looked at in the next call.
constexpr std::chrono::seconds longest_looks{1};
// A process that makes functions without end has no more names.
constexpr std::size_t max_functions = 16384;

python_process in_map(const ProcessKey &key) {
    return {.since_ns = key.since_ns, .tgid = key.tgid, .padding = 0};
}

}  // namespace

Result<std::unique_ptr<PythonProcesses>> PythonProcesses::start(int layouts) {
    auto files = symbols::MappedFiles::open();
    if (!files) {
        return tl::unexpected(files.error());
    }
    return std::unique_ptr<PythonProcesses>(new PythonProcesses(std::move(*files), layouts));
}

void PythonProcesses::look_at(std::span<const ProcessKey> running) {
    for (auto &[key, process] : processes_) {
        process.runs = false;
    }
    const WorkLimit limit = WorkLimit().at_most(longest_looks);
    int looks = 0;
    for (const ProcessKey &key : running) {
        Process &process = processes_[key];
        process.runs = true;
        const bool is_due = !process.python && ++process.calls >= process.next_look;
        if (is_due && looks < max_looks && !limit.is_reached()) {
            looks++;
            look_at(key, process);
        }
    }
    for (const auto &[key, process] : processes_) {
        if (!process.runs && process.python) {
            const python_process in_kernel = in_map(key);
            bpf_map_delete_elem(layouts_, &in_kernel);
        }
    }
}

void PythonProcesses::keep_only(const std::function<bool(const ProcessKey &)> &is_kept) {
    std::erase_if(processes_, [&](const auto &known) { return !is_kept(known.first); });
}

void PythonProcesses::look_at(const ProcessKey &key, Process &process) {
    process.calls = 0;
    process.next_look *= 2;
    process.python = find_python(*files_, key.tgid);
    if (!process.python) {
        return;
    }
    const python_process in_kernel = in_map(key);
    const int error = bpf_map_update_elem(layouts_, &in_kernel, &process.python->frames, BPF_ANY);
    if (error != 0) {
        log::warn("cannot show the Python functions of a process",
                  {{"pid", key.tgid}, {"reason", std::strerror(-error)}});
    }
}

std::vector<PythonFrame> PythonProcesses::name(const ProcessKey &key,
                                               std::span<const std::uint64_t> stack) {
    std::vector<PythonFrame> frames;
    const auto found = processes_.find(key);
    for (const std::uint64_t word : stack) {
        PythonFrame frame{.function = {.function = "", .module = "", .offset = 0},
                          .is_called_by_c = (word & PYTHON_ENTRY) != 0};
        if (found != processes_.end() && found->second.python) {
            auto &functions = found->second.functions;
            const std::uint64_t code = word & ~PYTHON_ENTRY;
            auto known = functions.find(code);
            if (known == functions.end() && functions.size() < max_functions) {
                auto named = python_function(*files_, key.tgid, found->second.python->code, code);
                if (!named.function.empty()) {
                    known = functions.emplace(code, std::move(named)).first;
                }
            }
            if (known != functions.end()) {
                frame.function = known->second;
            }
        }
        frames.push_back(std::move(frame));
    }
    return frames;
}

}  // namespace gpusnoop::probes

#include "exporter/probes/profile/python/processes.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <cstring>

#include "bpf/profile/profile.h"
#include "exporter/base/log.h"
#include "exporter/probes/frame/python/code_names.h"

namespace gpusnoop::probes {

namespace {

// In one call: before Linux 6.1, each costs a walk over all mappings of the machine.
constexpr int max_looks = 32;
// The others are looked at in the next call.
constexpr std::chrono::seconds longest_looks{1};
// Reading names of one process, and of all, between two calls.
constexpr std::chrono::milliseconds longest_names_of_process{250};
constexpr std::chrono::seconds longest_names{1};
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
        process.named = {};
    }
    named_ = {};
    const WorkLimit limit = limit_.at_most(longest_looks);
    int looks = 0;
    for (const ProcessKey &key : running) {
        Process &process = processes_[key];
        process.runs = true;
        const bool is_due = !process.python && ++process.calls >= process.next_look;
        if (is_due && looks < max_looks && !limit.is_reached()) {
            looks++;
            look_at(key, process, limit);
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

void PythonProcesses::look_at(const ProcessKey &key, Process &process, const WorkLimit &limit) {
    process.calls = 0;
    process.next_look *= 2;
    process.python = find_python(*files_, key.tgid, limit);
    if (!process.python || !process.python->is_for_kernel) {
        process.python.reset();
        return;
    }
    const python_process in_kernel = in_map(key);
    const int error = bpf_map_update_elem(layouts_, &in_kernel, &process.python->frames, BPF_ANY);
    if (error != 0) {
        log::warn("cannot show the Python functions of a process",
                  {{"pid", key.tgid}, {"reason", std::strerror(-error)}});
    }
}

const symbols::Frame *PythonProcesses::function_at(const ProcessKey &key, Process &process,
                                                   std::uint64_t code) {
    if (const auto known = process.functions.find(code); known != process.functions.end()) {
        return &known->second;
    }
    const Clock::duration left =
        std::min<Clock::duration>(longest_names_of_process - process.named, longest_names - named_);
    if (left <= Clock::duration::zero() || process.functions.size() >= max_functions) {
        return nullptr;
    }
    const auto began = Clock::now();
    files_->set_limit(limit_.at_most(left));
    auto named = python_function(*files_, key.tgid, process.python->code, code);
    const auto took = Clock::now() - began;
    process.named += took;
    named_ += took;
    return named.function.empty()
               ? nullptr
               : &process.functions.emplace(code, std::move(named)).first->second;
}

std::vector<PythonFrame> PythonProcesses::name(const ProcessKey &key,
                                               std::span<const std::uint64_t> stack) {
    std::vector<PythonFrame> frames;
    const auto found = processes_.find(key);
    for (const std::uint64_t word : stack) {
        PythonFrame frame{.function = {.function = "", .module = "", .offset = 0},
                          .is_called_by_c = (word & PYTHON_ENTRY) != 0};
        if (found != processes_.end() && found->second.python) {
            const std::uint64_t code = word & ~PYTHON_ENTRY;
            if (const symbols::Frame *function = function_at(key, found->second, code)) {
                frame.function = *function;
            }
        }
        frames.push_back(std::move(frame));
    }
    return frames;
}

}  // namespace gpusnoop::probes

#include "exporter/probes/host_life/dying_calls.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "bpf/lib/processes/followed.h"
#include "dying.skel.h"
#include "exporter/base/log.h"
#include "exporter/probes/frame/python/code_names.h"

namespace gpusnoop::probes {

namespace {

// PyBytesObject, in all versions.
constexpr std::size_t line_table_begin = 32;

// Of a process: only the newest is its last one.
constexpr std::size_t max_calls = 64;

// As precise as followed::last_call has it.
std::uint64_t began_of(std::uint64_t started_ns) {
    return LAST_CALL_BEGAN_NS(LAST_CALL(started_ns, 0U, 0U));
}

template <std::size_t size>
std::string_view object_in(const char (&bytes)[size], std::uint32_t count) {
    return {bytes, std::min<std::size_t>(count, size)};
}

}  // namespace

PythonPlace place_of(const dying_frame_record &frame, const PythonCodeLayout &code) {
    PythonPlace place;
    place.path = python_text(object_in(frame.file, frame.file_bytes), code);
    place.function = python_text(object_in(frame.function, frame.function_bytes), code);
    if (place.path.empty() || place.function.empty()) {
        return {};
    }
    std::string_view table = object_in(frame.table, frame.table_bytes);
    table.remove_prefix(std::min(table.size(), line_table_begin));
    place.line = python_line(code.lines, table, frame.first_line, frame.instruction);
    return place;
}

Result<std::unique_ptr<DyingCalls>> DyingCalls::start(const CallMaps &maps) {
    Skeleton skeleton(dying_bpf::open());
    if (!skeleton) {
        return fail_errno("open the BPF programs at the ends of calls");
    }
    if (const int error = bpf_map__reuse_fd(skeleton->maps.cuda_threads, maps.threads.get());
        error != 0) {
        return fail_errno("share the calls of threads", -error);
    }
    const auto &programs = skeleton->progs;
    bpf_program__set_expected_attach_type(programs.dying_return,
                                          static_cast<bpf_attach_type>(maps.return_type));
    bpf_program__set_expected_attach_type(programs.dying_exit,
                                          static_cast<bpf_attach_type>(maps.exit_type));
    if (const int error = dying_bpf::load(skeleton.get()); error != 0) {
        return fail_errno("load the BPF programs at the ends of calls", -error);
    }
    auto resolver = PythonSiteResolver::start();
    if (!resolver) {
        return tl::unexpected(resolver.error());
    }
    std::unique_ptr<DyingCalls> calls(new DyingCalls(std::move(skeleton), std::move(*resolver)));
    if (auto attached = calls->attach(maps); !attached) {
        return tl::unexpected(attached.error());
    }
    return calls;
}

DyingCalls::DyingCalls(Skeleton skeleton, std::unique_ptr<PythonSiteResolver> resolver)
    : skeleton_(std::move(skeleton)), resolver_(std::move(resolver)) {}

DyingCalls::~DyingCalls() = default;

Result<> DyingCalls::attach(const CallMaps &maps) {
    auto ring = ebpf::Ring::open(bpf_map__fd(skeleton_->maps.dying_frames),
                                 [this](auto bytes) { on_frame(bytes); });
    if (!ring) {
        return tl::unexpected(ring.error());
    }
    frames_ = std::move(*ring);
    const auto &programs = skeleton_->progs;
    link_ = ebpf::Link(bpf_program__attach(programs.dying_signal));
    if (!link_) {
        return fail_errno("attach to the delivery of signals");
    }
    const std::uint32_t first = 0;
    for (const auto &[table, program] :
         {std::pair(maps.failed.get(), programs.dying_return),
          std::pair(maps.failed_at_exit.get(), programs.dying_exit)}) {
        const int fd = bpf_program__fd(program);
        if (bpf_map_update_elem(table, &first, &fd, BPF_ANY) != 0) {
            return fail_errno("follow calls that fail");
        }
    }
    return {};
}

void DyingCalls::look_at(const ProcessKey &process) {
    const auto [found, is_new] = processes_.try_emplace(process.tgid);
    Process &known = found->second;
    if (!is_new && known.key != process) {
        forget(process.tgid);  // it was another program before
        return look_at(process);
    }
    known.key = process;
    if (!known.python && !known.is_asked) {
        known.is_asked = true;
        resolver_->ask({.process = process, .site = {}});
    }
}

void DyingCalls::drain() {
    for (const SiteAnswer &answer : resolver_->answers()) {
        const auto asked = processes_.find(answer.process.tgid);
        if (asked == processes_.end() || asked->second.key != answer.process) {
            continue;  // it has ended meanwhile
        }
        asked->second.is_asked = false;
        if (answer.python && answer.python->is_for_kernel) {
            set_interpreter(asked->second, *answer.python);
        }
    }
    frames_->drain_to(frames_->produced());
}

void DyingCalls::set_interpreter(Process &process, const PythonInterpreter &python) {
    const std::uint32_t tgid = process.key.tgid;
    const PythonCodeLayout &code = python.code;
    const dying_interpreter interpreter{.frames = python.frames,
                                        .frame_instruction = python.frame_instruction,
                                        .code_instructions = code.instructions,
                                        .file_name = code.file_name,
                                        .qualified_name = code.qualified_name,
                                        .line_table = code.line_table,
                                        .first_line = code.first_line,
                                        .ascii_text = code.ascii_text,
                                        .unicode_text = code.unicode_text};
    const int error = bpf_map_update_elem(bpf_map__fd(skeleton_->maps.dying_pythons), &tgid,
                                          &interpreter, BPF_ANY);
    if (error != 0) {
        log::warn("the last call of a process has no line of Python",
                  {{"pid", tgid}, {"reason", std::generic_category().message(-error)}});
        return;
    }
    process.python = python;
    log::debug("the last call of a process has its line of Python from now on", {{"pid", tgid}});
}

void DyingCalls::on_frame(std::span<const std::byte> bytes) {
    const auto frame = ebpf::decode<dying_frame_record>(bytes);
    const auto found = frame ? processes_.find(frame->tgid) : processes_.end();
    if (found == processes_.end() || !found->second.python || frame->index >= DYING_FRAMES) {
        return;
    }
    Calls &calls = found->second.calls;
    // A thread that is stopped in a call may end in it later, or the call fail: its frames come
    // again.
    Call &call = calls[began_of(frame->call_started_ns)];
    call.has_failed = frame->has_failed != 0;
    call.frames.resize(frame->index);
    call.frames.push_back(python_site_frame(place_of(*frame, found->second.python->code)));
    if (calls.size() > max_calls) {
        calls.erase(calls.begin());
    }
}

std::string DyingCalls::line_of(const life_exit_record &record) const {
    const auto process = processes_.find(record.head.tgid);
    if (process == processes_.end() || record.last_call == 0) {
        return "";
    }
    const Calls &calls = process->second.calls;
    const auto call = calls.find(LAST_CALL_BEGAN_NS(record.last_call));
    const bool is_it = call != calls.end() &&
                       (call->second.has_failed || LAST_CALL_IS_INSIDE(record.last_call) != 0);
    return is_it ? python_site_label(call->second.frames) : "";
}

void DyingCalls::forget(std::uint32_t tgid) {
    bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.dying_pythons), &tgid);
    processes_.erase(tgid);
}

}  // namespace gpusnoop::probes

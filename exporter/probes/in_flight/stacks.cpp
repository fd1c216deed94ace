#include "exporter/probes/in_flight/stacks.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/base/work_limit.h"
#include "exporter/probes/frame/python/stacks.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_threads = 256;

// Clients wait 5 seconds for the whole answer. The memory of a process that does not answer takes a
// second; the symbols of a large library do, too, the first time.
constexpr std::chrono::seconds patience_with_memory{2};
constexpr std::chrono::seconds patience_with_names{2};

// The bits of task_struct's __state in include/linux/sched.h.
std::string name_of_state(std::uint32_t state) {
    constexpr std::uint32_t interruptible = 1;
    constexpr std::uint32_t uninterruptible = 2;
    constexpr std::uint32_t stopped = 4 | 8;
    if (state == 0) {
        return "running";
    }
    if ((state & stopped) != 0) {
        return "stopped";
    }
    if ((state & interruptible) != 0) {
        return "sleeping";
    }
    return (state & uninterruptible) != 0 ? "uninterruptible" : "unknown";
}

std::vector<std::string> kernel_functions(const blocked_thread_record &thread) {
    std::vector<std::string> functions;
    for (std::uint32_t i = 0;
         i < std::min<std::uint32_t>(thread.kernel_frames, OPEN_CALL_KERNEL_FRAMES); i++) {
        const char *const name = thread.kernel[i];
        functions.push_back(
            to_valid_utf8({name, ::strnlen(name, OPEN_CALL_SYMBOL_BYTES)}, OPEN_CALL_SYMBOL_BYTES));
    }
    return functions;
}

// The thread may have left the call whose age was read, and may be in another.
bool is_in(const blocked_thread_record &thread, const std::vector<const OpenCall *> &calls) {
    return std::ranges::any_of(
        calls, [&](const OpenCall *call) { return call->began_ns == thread.call_started_ns; });
}

// A traced function without a frame pointer is on no stack, though the thread is in it.
std::vector<symbols::Frame> with_traced(const std::vector<StackPlace> &places,
                                        std::vector<symbols::Frame> frames) {
    std::vector<symbols::Frame> all;
    for (std::size_t i = 0; i < std::min(places.size(), frames.size()); i++) {
        const OpenCall *const call = places[i].left;
        if (call != nullptr && (all.empty() || all.back().function != call->function)) {
            all.push_back({call->function, call->library, 0});
        }
        all.push_back(std::move(frames[i]));
    }
    return all;
}

}  // namespace

Result<std::unique_ptr<InFlightStacks>> InFlightStacks::start() {
    auto files = symbols::MappedFiles::open();
    if (!files) {
        return tl::unexpected(files.error());
    }
    auto resolver = symbols::StackResolver::start();
    if (!resolver) {
        return tl::unexpected(resolver.error());
    }
    return std::make_unique<InFlightStacks>(std::move(*files), std::move(*resolver));
}

std::vector<std::vector<symbols::Frame>> InFlightStacks::name(
    std::vector<symbols::StackRequest> requests) {
    std::vector<std::vector<symbols::Frame>> named;
    const std::uint64_t first = next_ticket_;
    for (symbols::StackRequest &request : requests) {
        named.push_back(
            std::move(symbols::StackNamer::unresolved(0, request.addresses.size()).frames));
        request.ticket = next_ticket_++;
        resolver_->ask(std::move(request));
    }
    const auto give_up = std::chrono::steady_clock::now() + patience_with_names;
    for (std::size_t missing = named.size();
         missing > 0 && std::chrono::steady_clock::now() < give_up;) {
        for (symbols::StackReply &reply : resolver_->answers()) {
            if (reply.ticket >= first) {  // else it is too late
                named[reply.ticket - first] = std::move(reply.frames);
                missing--;
            }
        }
        if (missing > 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    }
    return named;
}

// Python's functions last: a process cannot keep the native ones of others from being read.
void InFlightStacks::walk(std::vector<Walked> &walked) {
    const WorkLimit limit = WorkLimit{}.at_most(patience_with_memory);
    files_->set_limit(limit);
    const symbols::ReadMemory read = [&](auto tgid, auto address, auto size) {
        return limit.is_reached() ? Result<std::string>(fail("no time is left", ETIMEDOUT))
                                  : files_->read_memory(tgid, address, size);
    };
    for (Walked &one : walked) {
        one.places = walk_stack(*one.thread, one.calls, read);
    }
    PythonStacks python(*files_, limit);
    for (Walked &one : walked) {
        one.python = python.of(one.thread->tgid, one.thread->tid);
    }
    files_->rest();  // the next request may be hours away
}

std::map<std::uint32_t, BlockedThread> InFlightStacks::of(const OpenCalls &open) {
    const std::lock_guard lock(mutex_);
    std::map<std::uint32_t, std::vector<const OpenCall *>> calls;
    for (const OpenCall &call : open.calls) {
        calls[call.tid].push_back(&call);
    }
    std::vector<Walked> walked;
    for (const blocked_thread_record &thread : open.threads) {
        const auto of_thread = calls.find(thread.tid);
        if (of_thread != calls.end() && is_in(thread, of_thread->second)) {
            walked.push_back({&thread, of_thread->second, {}, {}});
        }
    }
    std::ranges::sort(walked, {}, [](const Walked &one) { return one.thread->call_started_ns; });
    walked.resize(std::min(walked.size(), max_threads));
    walk(walked);
    std::vector<symbols::StackRequest> requests;
    for (const Walked &one : walked) {
        symbols::StackRequest &request = requests.emplace_back();
        request.tgid = one.thread->tgid;
        request.code_start = one.thread->code_start;
        request.begins_at_instruction = true;
        for (const StackPlace &place : one.places) {
            request.addresses.push_back(place.address);
        }
    }
    auto named = name(std::move(requests));
    std::map<std::uint32_t, BlockedThread> threads;
    for (std::size_t i = 0; i < std::min(walked.size(), named.size()); i++) {
        const Walked &one = walked[i];
        BlockedThread thread{name_of_state(one.thread->state),
                             with_traced(one.places, std::move(named[i])),
                             kernel_functions(*one.thread)};
        merge_python(thread.stack, one.python);
        threads.emplace(one.thread->tid, std::move(thread));
    }
    return threads;
}

}  // namespace gpusnoop::probes

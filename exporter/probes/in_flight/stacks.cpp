#include "exporter/probes/in_flight/stacks.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "exporter/base/text/text.h"
#include "exporter/base/work_limit.h"
#include "exporter/probes/frame/python/stacks.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_places = 128;
constexpr std::size_t window_bytes = 65'536;
constexpr std::uint64_t word = sizeof(std::uint64_t);

// A return address, and where it lies.
struct Found {
    std::uint64_t at = 0;
    StackPlace place;
};

class Walk {
public:
    Walk(const blocked_thread_record &thread, std::span<const OpenCall *const> calls,
         const symbols::ReadMemory &read)
        : thread_(thread), calls_(calls.begin(), calls.end()), read_(read) {
        std::ranges::sort(calls_, {}, &OpenCall::sp);  // the innermost first
        window_ = read_(thread.tgid, thread.stack, window_bytes).value_or("");
    }

    std::vector<StackPlace> places() {
        follow_frames(thread_.frame, thread_.stack);
        for (const OpenCall *const call : calls_) {
            add_return(*call);
        }
        std::ranges::sort(found_, {}, &Found::at);
        std::vector<StackPlace> places = {{thread_.instruction, nullptr}};
        for (const Found &found : found_) {
            if (places.size() < max_places) {
                places.push_back(found.place);
            }
        }
        return places;
    }

private:
    [[nodiscard]] std::optional<std::uint64_t> word_at(std::uint64_t address) const {
        const std::uint64_t offset = address - thread_.stack;
        if (address < thread_.stack || window_.size() < word || offset > window_.size() - word) {
            return symbols::read_word(thread_.tgid, address, read_);
        }
        std::uint64_t value = 0;
        std::memcpy(&value, window_.data() + offset, sizeof(value));
        return value;
    }

    // Each frame begins with the caller's frame and the return address. A stack grows down, so the
    // caller's frame lies higher: this also ends the walk.
    void follow_frames(std::uint64_t frame, std::uint64_t below) {
        while (found_.size() < max_places && frame >= below && frame % word == 0) {
            const auto next = word_at(frame);
            const auto address = word_at(frame + word);
            if (!next || !address || *address == 0) {
                break;
            }
            if (!add(frame + word, *address)) {
                break;  // the rest is known, too
            }
            below = frame + word;
            frame = *next;
        }
    }

    // The kernel puts the address of its trampoline in the place of the real one. False: it was
    // added before.
    bool add(std::uint64_t at, std::uint64_t address) {
        if (std::ranges::find(found_, at, &Found::at) != found_.end()) {
            return false;
        }
        if (thread_.trampoline == 0 || address != thread_.trampoline) {
            const OpenCall *const call = call_at(at);
            found_.push_back({at, {address, call}});
            return true;
        }
        // One without a return probe is not on this stack, or its address is no trampoline's.
        const auto call = std::ranges::find_if(calls_, [&](const OpenCall *one) {
            return one->sp >= at && one->returns_to != 0 && !is_found(*one);
        });
        if (call != calls_.end()) {
            found_.push_back({at, {(*call)->returns_to, *call}});
        }
        return true;
    }

    [[nodiscard]] const OpenCall *call_at(std::uint64_t at) const {
        const auto call = std::ranges::find(calls_, at, &OpenCall::sp);
        return call == calls_.end() ? nullptr : *call;
    }

    [[nodiscard]] bool is_found(const OpenCall &call) const {
        return std::ranges::any_of(found_,
                                   [&](const Found &one) { return one.place.left == &call; });
    }

    // Functions without frame pointers, such as those of most libcs, hide the frames around them.
    void add_return(const OpenCall &call) {
        if (is_found(call)) {
            return;
        }
        std::uint64_t address = call.returns_to;
#if defined(__x86_64__)
        if (address == 0) {
            address = word_at(call.sp).value_or(0);
        }
#endif
        if (address != 0 && address != thread_.trampoline) {
            found_.push_back({call.sp, {address, &call}});
        }
#if defined(__x86_64__)
        // A function with a frame pointer begins by pushing its caller's.
        if (const auto frame = word_at(call.sp - word); frame && *frame > call.sp) {
            follow_frames(*frame, call.sp);
        }
#endif
    }

    const blocked_thread_record &thread_;
    std::vector<const OpenCall *> calls_;
    const symbols::ReadMemory &read_;
    std::string window_;  // of the stack, from its top on
    std::vector<Found> found_;
};

}  // namespace

std::vector<StackPlace> walk_stack(const blocked_thread_record &thread,
                                   std::span<const OpenCall *const> calls,
                                   const symbols::ReadMemory &read) {
    return Walk(thread, calls, read).places();
}

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

std::string site_of(const std::vector<PythonFrame> &python) {
    std::vector<PythonSiteFrame> frames;
    for (const PythonFrame &frame : python) {
        frames.push_back(frame.site);
    }
    return python_site_label(frames);
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
                             kernel_functions(*one.thread), site_of(one.python)};
        merge_python(thread.stack, one.python);
        threads.emplace(one.thread->tid, std::move(thread));
    }
    return threads;
}

}  // namespace gpusnoop::probes

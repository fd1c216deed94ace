#include "exporter/trace/stack_names.h"

#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

namespace {

// For one process. Over this limit, its known stacks are forgotten and looked up again.
constexpr std::size_t max_stacks = 4096;
// After a process closes a library, another one can be at its addresses.
constexpr std::chrono::seconds stacks_are_kept{5};
// The stacks of one call of name(): those of one process, and all. What is not looked up then has
// no names.
constexpr std::chrono::seconds longest_for_process{4};
constexpr std::chrono::seconds longest_look_up{8};

}  // namespace

Result<std::unique_ptr<StackNames>> StackNames::start() {
    auto files = symbols::MappedFiles::open();
    if (!files) {
        return tl::unexpected(files.error());
    }
    return std::unique_ptr<StackNames>(new StackNames(std::move(*files)));
}

StackNames::Known &StackNames::known_of(const Process &process) {
    const auto [found, is_new] = processes_.try_emplace(process);
    if (is_new) {
        found->second.since = std::chrono::steady_clock::now();
    }
    return found->second.stacks;
}

std::vector<StackNames::Named> StackNames::name(std::span<const Stack> stacks) {
    for (const Stack &stack : stacks) {
        if (Known &known = known_of(stack.process); known.size() >= max_stacks) {
            known.clear();
        }
    }
    std::map<std::uint32_t, std::vector<symbols::StackRequest>> requests;  // by process
    std::vector<Known::iterator> asked;
    for (const Stack &stack : stacks) {
        const auto [entry, is_new] =
            known_of(stack.process).try_emplace({stack.addresses, stack.begins_at_instruction});
        if (is_new) {
            requests[stack.process.first].push_back(
                {.ticket = asked.size(),
                 .tgid = stack.process.first,
                 .addresses = stack.addresses,
                 .code_start = stack.code_start,
                 .is_thorough = true,
                 .begins_at_instruction = stack.begins_at_instruction});
            asked.push_back(entry);
        }
    }
    const WorkLimit limit = limit_.at_most(longest_look_up);
    for (const auto &[tgid, of_process] : requests) {
        for (symbols::StackReply &answer :
             namer_.name(of_process, limit.at_most(longest_for_process))) {
            for (symbols::Frame &frame : answer.frames) {
                frame.function = printable(frame.function, max_text_bytes);
                frame.module = printable(frame.module, max_text_bytes);
            }
            asked[answer.ticket]->second = {std::move(answer.frames), std::move(answer.places)};
        }
    }
    std::vector<Named> named;
    named.reserve(stacks.size());
    for (const Stack &stack : stacks) {
        named.push_back(known_of(stack.process)[{stack.addresses, stack.begins_at_instruction}]);
    }
    return named;
}

void StackNames::forget_old() {
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(processes_,
                  [&](const auto &entry) { return now - entry.second.since > stacks_are_kept; });
    (void)namer_.close_unused();
}

}  // namespace gpusnoop::trace

// The stacks of threads inside of calls, in a memory that the test makes.
#include "exporter/probes/in_flight/stacks.h"

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/probes/in_flight/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

constexpr std::uint64_t stack_top = 0x7f00'0000;
constexpr std::uint64_t trampoline = 0x7fff'f000;

// Words of one process's stack; others cannot be read.
struct Stack {
    std::map<std::uint64_t, std::uint64_t> words;

    // A caller's frame pointer and the return address, at `frame`.
    void frame(std::uint64_t frame, std::uint64_t next, std::uint64_t returns_to) {
        words[frame] = next;
        words[frame + 8] = returns_to;
    }
    [[nodiscard]] symbols::ReadMemory reader() const {
        return [this](std::uint32_t tgid, std::uint64_t address,
                      std::size_t size) -> Result<std::string> {
            const auto word = words.find(address);
            if (tgid != 42 || word == words.end() || size < sizeof(word->second)) {
                return fail("cannot read", EFAULT);
            }
            std::string bytes(sizeof(word->second), '\0');
            std::memcpy(bytes.data(), &word->second, sizeof(word->second));
            return bytes;
        };
    }
};

blocked_thread_record thread_at(std::uint64_t frame) {
    blocked_thread_record thread = thread_in(7, 100);
    thread.instruction = 0x1000;
    thread.stack = stack_top;
    thread.frame = frame;
    thread.trampoline = trampoline;
    return thread;
}

std::vector<std::uint64_t> addresses(const std::vector<StackPlace> &places) {
    std::vector<std::uint64_t> all;
    for (const StackPlace &place : places) {
        all.push_back(place.address);
    }
    return all;
}

using Addresses = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a stack is followed by its frame pointers") {
    Stack stack;
    stack.frame(stack_top + 0x10, stack_top + 0x40, 0x2000);
    stack.frame(stack_top + 0x40, stack_top + 0x80, 0x3000);
    stack.frame(stack_top + 0x80, 0, 0x4000);
    const auto places = walk_stack(thread_at(stack_top + 0x10), {}, stack.reader());
    CHECK(addresses(places) == Addresses{0x1000, 0x2000, 0x3000, 0x4000});
}

TEST_CASE("the kernel's trampoline is shown as where the call returns to") {
    Stack stack;
    stack.frame(stack_top + 0x10, stack_top + 0x40, 0x2000);
    stack.frame(stack_top + 0x40, stack_top + 0x80, trampoline);
    stack.frame(stack_top + 0x80, 0, 0x4000);
    OpenCall call = call_in_flight("cudaFree", 7, 100, stack_top + 0x48);
    call.returns_to = 0x3000;
    const std::vector<const OpenCall *> calls = {&call};
    const auto places = walk_stack(thread_at(stack_top + 0x10), calls, stack.reader());
    CHECK(addresses(places) == Addresses{0x1000, 0x2000, 0x3000, 0x4000});
    CHECK(places[2].left == &call);
    CHECK(places[1].left == nullptr);

    SECTION("and left out if that is not known") {
        call.returns_to = 0;
        CHECK(addresses(walk_stack(thread_at(stack_top + 0x10), calls, stack.reader())) ==
              Addresses{0x1000, 0x2000, 0x4000});
    }
}

#if defined(__x86_64__)
TEST_CASE("a function without frame pointers hides only its own callees") {
    // The thread's frame register has something else in it.
    Stack stack;
    OpenCall inner = call_in_flight("inner", 7, 100, stack_top + 0x48);
    inner.returns_to = 0x3000;
    OpenCall outer = call_in_flight("outer", 7, 90, stack_top + 0x88);
    const std::vector<const OpenCall *> calls = {&outer, &inner};
    stack.words[stack_top + 0x48] = trampoline;
    stack.words[stack_top + 0x88] = 0x5000;  // it has no return probe
    CHECK(addresses(walk_stack(thread_at(0x1234), calls, stack.reader())) ==
          Addresses{0x1000, 0x3000, 0x5000});

    SECTION("and with a frame pointer of its own, its callers are followed") {
        stack.words[stack_top + 0x40] = stack_top + 0x60;
        stack.frame(stack_top + 0x60, stack_top + 0x80, 0x4000);
        stack.frame(stack_top + 0x80, stack_top + 0xa0, 0x5000);
        stack.frame(stack_top + 0xa0, 0, 0x6000);
        const auto places = walk_stack(thread_at(0x1234), calls, stack.reader());
        CHECK(addresses(places) == Addresses{0x1000, 0x3000, 0x4000, 0x5000, 0x6000});
        CHECK(places[1].left == &inner);
        CHECK(places[3].left == &outer);
    }
}
#endif

TEST_CASE("a stack that leads in a circle, down or nowhere ends") {
    Stack stack;
    stack.frame(stack_top + 0x10, stack_top + 0x10, 0x2000);
    CHECK(addresses(walk_stack(thread_at(stack_top + 0x10), {}, stack.reader())) ==
          Addresses{0x1000, 0x2000});
    stack.frame(stack_top + 0x10, stack_top, 0x2000);
    CHECK(addresses(walk_stack(thread_at(stack_top + 0x10), {}, stack.reader())) ==
          Addresses{0x1000, 0x2000});
    for (const std::uint64_t frame :
         {std::uint64_t{0}, stack_top + 0x11, stack_top - 0x10, ~std::uint64_t{7}}) {
        CHECK(addresses(walk_stack(thread_at(frame), {}, stack.reader())) == Addresses{0x1000});
    }
}

TEST_CASE("a stack has its limit") {
    Stack stack;
    for (std::uint64_t i = 0; i < 1'000; i++) {
        stack.frame(stack_top + 0x10 * i, stack_top + 0x10 * (i + 1), 0x2000 + i);
    }
    CHECK(walk_stack(thread_at(stack_top), {}, stack.reader()).size() == 128);
}

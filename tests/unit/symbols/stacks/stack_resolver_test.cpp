#include "exporter/symbols/stacks/stack_namer.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <latch>
#include <set>
#include <thread>

#include "tests/unit/child_process.h"
#include "tests/unit/symbols/own_process.h"
#include "tests/unit/symbols/stacks/proc_mapped_files.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;
using namespace std::chrono_literals;

namespace {

[[gnu::noinline]] std::uint64_t here() {
    return reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
}

std::vector<StackReply> wait_for(StackResolver &resolver, std::size_t count) {
    std::vector<StackReply> all;
    for (int i = 0; all.size() < count && i < 60'000; ++i) {
        for (StackReply &answer : resolver.answers()) {
            all.push_back(std::move(answer));
        }
        std::this_thread::sleep_for(1ms);
    }
    REQUIRE(all.size() == count);
    return all;
}

// Does not answer before it may.
class WaitingFiles : public ProcMappedFiles {
public:
    WaitingFiles(MappedFilesCounts &counts, std::latch &asked, std::latch &may)
        : ProcMappedFiles(counts), asked_(asked), may_(may) {}
    Result<std::vector<ebpf::Mapping>> list(std::uint32_t tgid) override {
        if (!asked_.try_wait()) {
            asked_.count_down();
        }
        may_.wait();
        return ProcMappedFiles::list(tgid);
    }

private:
    std::latch &asked_;
    std::latch &may_;
};

}  // namespace

TEST_CASE("stacks are named in a thread", "[stack_resolver]") {
    MappedFilesCounts counts;
    StackResolver resolver(std::make_unique<ProcMappedFiles>(counts));
    CHECK(resolver.answers().empty());
    resolver.ask({5, own_tgid(), {here(), 1}});
    const auto answers = wait_for(resolver, 1);
    CHECK(answers[0].ticket == 5);
    REQUIRE(answers[0].frames.size() == 2);
    CHECK(!answers[0].frames[0].function.empty());
    CHECK(answers[0].frames[1].module.empty());
}

TEST_CASE("stacks past the bound are answered at once, unresolved", "[stack_resolver]") {
    MappedFilesCounts counts;
    std::latch asked(1);
    std::latch may(1);
    StackResolver resolver(std::make_unique<WaitingFiles>(counts, asked, may));
    resolver.ask({0, own_tgid(), {here()}});
    asked.wait();  // the thread has it and is busy: what comes now waits
    constexpr std::uint64_t more = 100;
    for (std::uint64_t ticket = 1; ticket <= StackResolver::max_waiting + more; ++ticket) {
        resolver.ask({ticket, own_tgid(), {here(), here(), here()}});
    }
    const auto refused = resolver.answers();
    CHECK(refused.size() == more);
    for (const StackReply &answer : refused) {
        CHECK(answer.ticket > StackResolver::max_waiting);
        REQUIRE(answer.frames.size() == 3);
        CHECK(answer.frames[0].module.empty());
    }
    may.count_down();
    std::set<std::uint64_t> tickets;
    for (const StackReply &answer : wait_for(resolver, StackResolver::max_waiting + 1)) {
        tickets.insert(answer.ticket);
        CHECK(!answer.frames.at(0).function.empty());
    }
    CHECK(tickets.size() == StackResolver::max_waiting + 1);
    CHECK(*tickets.rbegin() == StackResolver::max_waiting);
}

TEST_CASE("a process with many stacks does not delay the only one of another", "[stack_resolver]") {
    const ChildProcess other([](const auto &tell) { tell({here()}); });
    REQUIRE(other.told().size() == 1);
    MappedFilesCounts counts;
    std::latch asked(1);
    std::latch may(1);
    StackResolver resolver(std::make_unique<WaitingFiles>(counts, asked, may));
    resolver.ask({0, own_tgid(), {here()}});
    asked.wait();
    constexpr std::uint64_t many = 1000;
    for (std::uint64_t ticket = 1; ticket <= many; ++ticket) {
        resolver.ask({ticket, own_tgid(), {here()}});
    }
    resolver.ask({many + 1, other.tgid(), {other.told()[0]}});
    may.count_down();
    const auto answers = wait_for(resolver, many + 2);
    CHECK(answers[0].ticket == 0);
    CHECK(answers[1].ticket == many + 1);
    CHECK(!answers[1].frames.at(0).function.empty());
}

TEST_CASE("the thread closes files by itself", "[stack_resolver]") {
    const struct stat program = own_program();
    const int before = descriptors_of(program);
    MappedFilesCounts counts;
    StackResolver resolver(std::make_unique<ProcMappedFiles>(counts), {.close_after = 20ms});
    resolver.ask({1, own_tgid(), {here()}});
    (void)wait_for(resolver, 1);
    CHECK(counts.opened == 1);
    for (int i = 0; descriptors_of(program) > before && i < 60'000; ++i) {
        std::this_thread::sleep_for(1ms);
    }
    CHECK(descriptors_of(program) == before);
}

TEST_CASE("a resolver with work to do can go", "[stack_resolver]") {
    MappedFilesCounts counts;
    StackResolver resolver(std::make_unique<ProcMappedFiles>(counts));
    for (std::uint64_t ticket = 0; ticket < 2000; ++ticket) {
        resolver.ask({ticket, own_tgid(), {here()}});
    }
}

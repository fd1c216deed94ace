// Call sites in Python, of running interpreters, which say themselves where they are.
#include "exporter/probes/frame/python/site_resolver.h"

#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exporter/probes/frame/python/code_names.h"
#include "tests/harness/pythons.h"
#include "tests/unit/probes/frame/python/hanging_python.h"
#include "tests/unit/probes/frame/python/made_memory.h"
#include "tests/unit/symbols/stacks/proc_mapped_files.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

// As the kernel takes it; 0: it cannot be read.
std::uint32_t taken_identity(symbols::MappedFiles &files, std::uint32_t tgid,
                             const PythonCodeLayout &layout, std::uint64_t code) {
    std::array<__u64, PYTHON_IDENTITY_WORDS> words{};
    const auto bytes =
        files.read_memory(tgid, code + python_identity_offset(layout), sizeof(words));
    if (!bytes || bytes->size() < sizeof(words)) {
        return 0;
    }
    std::memcpy(words.data(), bytes->data(), sizeof(words));
    if (const std::uint32_t name = python_identity_name(layout); name != 0) {
        const auto hash =
            files.read_memory(tgid, words.at(name) + PYTHON_HASH_OF_TEXT, sizeof(__u64));
        if (!hash || hash->size() < sizeof(__u64)) {
            return 0;
        }
        std::memcpy(&words.at(name), hash->data(), sizeof(__u64));
    }
    return static_cast<std::uint32_t>(python_identity(words.data()));
}

std::vector<SiteAnswer> answers_of(PythonSiteResolver &resolver, std::size_t count) {
    std::vector<SiteAnswer> all;
    for (int tries = 0; tries < 6'000 && all.size() < count; tries++) {
        for (SiteAnswer &answer : resolver.answers()) {
            all.push_back(std::move(answer));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    REQUIRE(all.size() == count);
    return all;
}

symbols::StackReply reply_to(PythonSiteResolver &resolver, SiteQuestion question) {
    resolver.ask(std::move(question));
    auto answers = answers_of(resolver, 1);
    REQUIRE(answers[0].site.has_value());
    return *answers[0].site;
}

}  // namespace

#if defined(__x86_64__)

TEST_CASE("a call site in Python has the functions and lines of its thread") {
    const std::string interpreter = GENERATE(from_range(harness::python_commands()));
    CAPTURE(interpreter);
    if (!std::filesystem::exists(harness::python_words(interpreter).back())) {
        SKIP("scripts/setup.sh --tests has not unpacked it");
    }
    const HangingPython hanging(interpreter, "callback");
    const ProcessKey key{hanging.tgid, 1};
    test::MappedFilesCounts counts;
    test::ProcMappedFiles files(counts);
    const auto python = find_python(files, hanging.tgid);
    REQUIRE(python.has_value());
    const symbols::ReadMemory read = [&](auto tgid, auto address, auto size) {
        return files.read_memory(tgid, address, size);
    };
    SiteQuestion question{
        .process = key,
        .site = symbols::StackRequest{.ticket = 3, .tgid = hanging.tgid, .addresses = {}}};
    // The call may not have begun.
    std::string innermost;
    for (int tries = 0; tries < 1'000 && innermost != hanging.places[0]; tries++) {
        question.python.clear();
        for (const PythonCall &call :
             python_calls(*python, hanging.tgid, hanging.tid,
                          python_states(*python, hanging.tgid, read), read)) {
            question.python.push_back(
                {call, taken_identity(files, hanging.tgid, python->code, call.code)});
        }
        if (!question.python.empty()) {
            const PythonCall &call = question.python.front().call;
            innermost = python_place(files, hanging.tgid, python->code, call.code, call.instruction)
                            .frame()
                            .function;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    REQUIRE(innermost == hanging.places[0]);

    PythonSiteResolver resolver(std::make_unique<test::ProcMappedFiles>(counts));
    resolver.ask({.process = key, .site = {}});
    CHECK(answers_of(resolver, 1)[0].python.has_value());

    const std::string label =
        hanging.places[0] + " < " + hanging.places[1] + " < " + hanging.places[2];
    const auto reply = reply_to(resolver, question);
    CHECK(reply.ticket == 3);
    CHECK(reply.label == label);
    REQUIRE(reply.frames.size() >= hanging.places.size());
    CHECK(reply.frames[0].function == hanging.places[0]);
    CHECK(reply.frames[0].module == "hangs.py");

    // Another program has its id: only what is known already is told.
    SiteQuestion later = question;
    later.site->code_start = 1;
    CHECK(reply_to(resolver, later).label == label);
    PythonSiteResolver other(std::make_unique<test::ProcMappedFiles>(counts));
    CHECK(reply_to(other, later).label.empty());

    // Without room, nothing is kept, and names are read each time.
    PythonSiteResolver full(std::make_unique<test::ProcMappedFiles>(counts),
                            {.bytes = 500, .bytes_of_user = 500});
    CHECK(reply_to(full, question).label == label);
    CHECK(reply_to(full, question).label == label);
    CHECK(reply_to(full, later).label != label);

    // Another code object is there by now.
    question.python[1].identity ^= 2U;
    CHECK(reply_to(resolver, question).label ==
          hanging.places[0] + " < " + hanging.places[2] + " < " + hanging.places[3]);
    for (PythonStackFrame &frame : question.python) {
        frame.identity = 0;
    }
    CHECK(reply_to(resolver, question).label.empty());
}

#endif

TEST_CASE("a process without Python has call sites of native functions only") {
    test::MappedFilesCounts counts;
    PythonSiteResolver resolver(std::make_unique<test::ProcMappedFiles>(counts));
    const ProcessKey own{static_cast<std::uint32_t>(::getpid()), 1};
    resolver.ask({.process = own, .site = {}});
    const auto answers = answers_of(resolver, 1);
    CHECK_FALSE(answers[0].site.has_value());
    CHECK_FALSE(answers[0].python.has_value());
    const SiteQuestion question{
        .process = own,
        .site = symbols::StackRequest{.ticket = 1, .tgid = own.tgid, .addresses = {1}},
        .python = {{.call = {.code = 0x1000}, .identity = 1}}};
    const auto reply = reply_to(resolver, question);
    CHECK(reply.label.empty());
    CHECK(reply.frames.size() == 1);
}

TEST_CASE("a site of autograd's threads has a name of its own") {
    PythonSiteResolver resolver(std::make_unique<MadeMemory>());
    const SiteQuestion question{
        .process = {made_process, 1},
        .site = symbols::StackRequest{.ticket = 1, .tgid = made_process, .addresses = {1}},
        .is_backward = true};
    CHECK(reply_to(resolver, question).label == "[backward]");
}

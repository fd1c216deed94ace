// Programs whose system calls are handled by something other than the kernel.
#include "exporter/probes/frame/sandbox_warnings.h"

#include <spdlog/spdlog.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <string>

#include "bpf/lib/process.h"
#include "exporter/base/log.h"
#include "tests/harness/counting.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using harness::count;

namespace {

// What the log gets while `act` runs.
template <typename Act>
std::string logged(const Act &act) {
    std::FILE *const file = std::tmpfile();
    REQUIRE(file != nullptr);
    log::setup(log::Level::info, log::Format::logfmt, file);
    act();
    spdlog::default_logger()->flush();
    log::setup(log::Level::info, log::Format::logfmt);
    std::rewind(file);
    std::string text(16 * 1024, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
}

ProcessIdentity process(const std::string &comm, std::uint32_t system_calls) {
    ProcessIdentity identity;
    identity.key.tgid = 42;
    identity.comm = comm;
    identity.system_calls = system_calls;
    return identity;
}

}  // namespace

TEST_CASE("a program whose system calls something else handles is named once") {
    SandboxWarnings warnings("functions");
    const std::string text = logged([&] {
        warnings.look(process("plain", 0));
        warnings.look(process("dispatched", SYSTEM_CALLS_DISPATCHED));
        warnings.look(process("dispatched", SYSTEM_CALLS_DISPATCHED));
        warnings.look(process("emulated", SYSTEM_CALLS_EMULATED | SYSTEM_CALLS_TRACED));
        warnings.look(process("traced", SYSTEM_CALLS_TRACED));
    });
    CHECK(count(text, "\n") == 3);
    CHECK(text.find("plain") == std::string::npos);
    CHECK(count(text, "pid=42 comm=dispatched handled_by=\"syscall user dispatch\"") == 1);
    CHECK(count(text, "comm=emulated handled_by=\"a tracer (PTRACE_SYSEMU)\"") == 1);
    CHECK(count(text, "comm=traced handled_by=\"a tracer (PTRACE_SYSCALL)\"") == 1);
}

TEST_CASE("only so many names of programs in sandboxes are remembered") {
    SandboxWarnings warnings("cuda");
    const std::string text = logged([&] {
        for (std::size_t i = 0; i < SandboxWarnings::max_names + 10; i++) {
            warnings.look(process("p" + std::to_string(i) + ".", SYSTEM_CALLS_EMULATED));
        }
    });
    CHECK(text.find("comm=p0.") != std::string::npos);
    CHECK(text.find("comm=p109.") == std::string::npos);
}

// Programs whose system calls are handled by something other than the kernel.
#include "exporter/probes/frame/libraries/library_probe.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "bpf/lib/processes/process.h"
#include "tests/harness/counting.h"
#include "tests/unit/logged.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using gpusnoop::test::logged;
using harness::count;

namespace {

ProcessIdentity sandbox_warnings_process(const std::string &comm, std::uint32_t system_calls) {
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
        warnings.look(sandbox_warnings_process("plain", 0));
        warnings.look(sandbox_warnings_process("dispatched", SYSTEM_CALLS_DISPATCHED));
        warnings.look(sandbox_warnings_process("dispatched", SYSTEM_CALLS_DISPATCHED));
        warnings.look(
            sandbox_warnings_process("emulated", SYSTEM_CALLS_EMULATED | SYSTEM_CALLS_TRACED));
        warnings.look(sandbox_warnings_process("traced", SYSTEM_CALLS_TRACED));
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
            warnings.look(
                sandbox_warnings_process("p" + std::to_string(i) + ".", SYSTEM_CALLS_EMULATED));
        }
    });
    CHECK(text.find("comm=p0.") != std::string::npos);
    CHECK(text.find("comm=p109.") == std::string::npos);
}

// What stays of the kernel's tables of Python: interpreters of running processes, and stacks that
// are in use.
#include "exporter/probes/frame/python/tables.h"

#include <bpf/bpf.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <optional>

#include "bpf/cuda/tables.h"
#include "bpf/lib/python/stacks.h"
#include "exporter/base/fd.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"
#include "tests/harness/exporter.h"

using namespace gpusnoop;
using namespace std::chrono_literals;

namespace {

template <typename Key, typename Value>
Fd hash_table() {
    Fd table(bpf_map_create(BPF_MAP_TYPE_HASH, "test", sizeof(Key), sizeof(Value), 64, nullptr));
    REQUIRE(table);
    return table;
}

struct PythonTablesFixture {
    Fd interpreters = hash_table<python_key, python_interpreter>();
    Fd stacks = hash_table<std::uint64_t, python_stack>();
    Fd processes = hash_table<std::uint32_t, cuda_live_process>();
    probes::PythonTables tables{
        {.interpreters = interpreters.get(), .stacks = stacks.get(), .max_stacks = 64},
        [table = probes::CudaTables({.processes = processes.get()})](const auto &process) {
            return table.is_running(process);
        }};

    void run(const probes::ProcessKey &process) const {
        cuda_live_process value{};
        value.since_ns = process.since_ns;
        REQUIRE(bpf_map_update_elem(processes.get(), &process.tgid, &value, BPF_ANY) == 0);
    }
    void end(const probes::ProcessKey &process) const {
        REQUIRE(bpf_map_delete_elem(processes.get(), &process.tgid) == 0);
    }
    void put(std::uint64_t stack, const probes::ProcessKey &process,
             std::chrono::nanoseconds used) const {
        python_stack value{};
        value.used_ns = static_cast<std::uint64_t>(used.count());
        value.since_ns = process.since_ns;
        value.tgid = process.tgid;
        value.frames = 2;
        value.frame[0] = {.code = 0x1000, .identity = 5, .instruction = 7};
        value.frame[1] = {.code = 0x2000 | PYTHON_ENTRY, .identity = 6, .instruction = -1};
        REQUIRE(bpf_map_update_elem(stacks.get(), &stack, &value, BPF_ANY) == 0);
    }
    [[nodiscard]] std::optional<python_interpreter> interpreter(
        const probes::ProcessKey &process) const {
        const python_key key{process.since_ns, process.tgid, 0};
        python_interpreter value{};
        return bpf_map_lookup_elem(interpreters.get(), &key, &value) == 0 ? std::optional(value)
                                                                          : std::nullopt;
    }
};

const probes::ProcessKey python_one{41, 1'000};
const probes::ProcessKey python_other{42, 2'000};

probes::PythonInterpreter python_of_tables() {
    return *probes::python_by_version(0x030b0000);
}

}  // namespace

TEST_CASE("the interpreter of a running process is entered once, and leaves with it", "[kernel]") {
    harness::require_bpf();
    const PythonTablesFixture fixture;
    fixture.tables.set_interpreter(python_one, python_of_tables());
    CHECK_FALSE(fixture.interpreter(python_one));
    fixture.run(python_one);
    fixture.tables.set_interpreter({python_one.tgid, 999}, python_of_tables());
    CHECK_FALSE(fixture.interpreter({python_one.tgid, 999}));
    probes::PythonInterpreter not_for_kernel = python_of_tables();
    not_for_kernel.is_for_kernel = false;
    fixture.tables.set_interpreter(python_one, not_for_kernel);
    CHECK_FALSE(fixture.interpreter(python_one));

    fixture.tables.set_interpreter(python_one, python_of_tables());
    const auto entered = fixture.interpreter(python_one);
    REQUIRE(entered);
    CHECK(entered->code_identity == 72);
    CHECK(entered->identity_name == 6);
    fixture.put(12, python_one, 0s);
    fixture.put(13, python_one, 0s);
    fixture.tables.forget_unused(100s, {12, 13});
    CHECK(fixture.interpreter(python_one)->stacks == 2);
    fixture.tables.set_interpreter(python_one, python_of_tables());
    CHECK(fixture.interpreter(python_one)->stacks == 2);
    fixture.end(python_one);
    fixture.tables.forget_unused(100s, {12, 13});
    CHECK_FALSE(fixture.interpreter(python_one));
}

TEST_CASE("stacks of Python stay while they are new or in use, and their process runs",
          "[kernel]") {
    harness::require_bpf();
    const PythonTablesFixture fixture;
    fixture.run(python_one);
    fixture.run(python_other);
    fixture.put(12, python_one, 0s);   // in use
    fixture.put(13, python_one, 50s);  // new
    fixture.put(14, python_one, 0s);
    fixture.put(15, python_other, 50s);
    fixture.end(python_other);
    fixture.tables.forget_unused(100s, {12, 15});
    CHECK(fixture.tables.stack(python_one, 12).size() == 2);
    CHECK(fixture.tables.stack(python_one, 13).size() == 2);
    CHECK(fixture.tables.stack(python_one, 14).empty());
    CHECK(fixture.tables.stack(python_other, 15).empty());
    fixture.tables.forget_unused(200s, {});
    CHECK(fixture.tables.stack(python_one, 12).empty());
    CHECK(fixture.tables.stack(python_one, 13).empty());
}

TEST_CASE("a stack of Python is that of its process", "[kernel]") {
    harness::require_bpf();
    const PythonTablesFixture fixture;
    fixture.put(12, python_one, 0s);
    const auto frames = fixture.tables.stack(python_one, 12);
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].call.code == 0x1000);
    CHECK(frames[0].call.instruction == 7);
    CHECK(frames[0].identity == 5);
    CHECK_FALSE(frames[0].call.is_called_by_c);
    CHECK(frames[1].call.code == 0x2000);
    CHECK(frames[1].call.instruction == -1);
    CHECK(frames[1].call.is_called_by_c);
    CHECK(fixture.tables.stack(python_other, 12).empty());
    CHECK(fixture.tables.stack(python_one, 13).empty());
    CHECK(fixture.tables.stack(python_one, PYTHON_STACK_BACKWARD).empty());
}

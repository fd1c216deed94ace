// Accesses to the configuration space as lines: for people and for programs.
#include "exporter/probes/pcie/probe.h"

#include <catch2/catch_test_macros.hpp>

#include "exporter/probes/pcie/aggregator.h"
#include "tests/unit/probes/event_lines.h"

using namespace gpusnoop;
using namespace gpusnoop::trace;
using namespace event_lines;
using nlohmann::json;

namespace {

pcie_record an_access() {
    pcie_record record{};
    record.ended_ns = ended;
    record.duration_ns = 1'500;
    record.device = *probes::pci_device("0000:3b:00.0");
    record.offset = 0x88;
    record.value = 0xffff;
    record.access = 2 | PCIE_WRITES | PCIE_USER;
    record.tgid = 100;
    record.tid = 101;
    return record;
}

}  // namespace

TEST_CASE("an access to the configuration space as a line") {
    Event event = event_of(an_access(), a_process(), "link_control", offset);
    CHECK(parsed(event) == json({{"time", "2023-11-14T22:13:20.123459500Z"},
                                 {"duration_ns", 1'500},
                                 {"pid", 100},
                                 {"tid", 101},
                                 {"ppid", 99},
                                 {"comm", "setpci"},
                                 {"script", ""},
                                 {"container_id", container},
                                 {"slurm_job_id", ""},
                                 {"user", "root"},
                                 {"op", "write"},
                                 {"result", 0},
                                 {"error", nullptr},
                                 {"device", "0000:3b:00.0"},
                                 {"offset", "0x88"},
                                 {"register", "link_control"},
                                 {"size", 2},
                                 {"value", "0xffff"},
                                 {"origin", "user"}}));
    CHECK(columns(event) ==
          "100 101 99 setpci write 1.5us 0 device=0000:3b:00.0 offset=0x88 register=link_control "
          "size=2 value=0xffff origin=user");

    pcie_record record = an_access();
    record.access = 4;
    record.value = 0xffff'ffff;
    record.tgid = record.tid = 0;
    const auto failed_with = [&](std::int32_t result) {
        record.result = result;
        return event_of(record, a_process(), "", offset);
    };
    event = failed_with(0x86);
    const json line = parsed(event);
    CHECK(line["pid"].is_null());
    CHECK(line["tid"].is_null());
    CHECK(line["comm"] == "interrupt");
    CHECK(line["op"] == "read");
    CHECK(line["origin"] == "driver");
    CHECK(line["register"].is_null());
    CHECK(line["result"] == 0x86);
    CHECK(line["error"] == "PCIBIOS_DEVICE_NOT_FOUND");
    CHECK(columns(event) ==
          "- - - interrupt read 1.5us PCIBIOS_DEVICE_NOT_FOUND device=0000:3b:00.0 offset=0x88 "
          "size=4 value=0xffffffff origin=driver");
    CHECK(parsed(failed_with(0x87))["error"] == "PCIBIOS_BAD_REGISTER_NUMBER");
    CHECK(parsed(failed_with(-19))["error"] == "ENODEV");
    CHECK(parsed(failed_with(7))["error"] == "7");
}

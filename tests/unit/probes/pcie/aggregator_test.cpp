// What comes of records of accesses to PCI devices.
#include "exporter/probes/pcie/aggregator.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <numeric>

#include "exporter/processes/proc.h"
#include "tests/unit/child_process.h"
#include "tests/unit/probes/driver_records.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t pcie_nobody = 0x7fffffff;  // no process has this id
const series::Budget any = [](std::string_view) { return 1000U; };

pcie_record access(std::uint32_t how, std::uint32_t value = 0, std::int32_t result = 0,
                   const std::string &device = "0000:3b:00.0") {
    pcie_record record{};
    record.ended_ns = 10'000;
    record.duration_ns = 700;
    record.device = *pci_device(device);
    record.value = value;
    record.result = result;
    record.access = how;
    record.tgid = pcie_nobody;
    record.identity = identity_of("lspci", 5);
    return record;
}

pcie_record by(std::uint32_t tgid, const process_identity &identity, pcie_record record) {
    record.tgid = tgid;
    record.identity = identity;
    return record;
}

}  // namespace

TEST_CASE("accesses are counted by device, operation, size, origin and process") {
    PcieAggregator aggregator({.budget = any, .retention = 1min});
    for (const std::uint32_t size : {1U, 2U, 4U}) {
        for (const std::uint32_t how : {0U, PCIE_WRITES, PCIE_USER, PCIE_USER | PCIE_WRITES}) {
            for (std::uint32_t i = 0; i < size + how; i++) {
                aggregator.on_record(access(size | how));
            }
        }
    }
    aggregator.on_record(access(4, 0, 0, "0001:00:01.2"));
    const std::string container(64, 'a');
    process_details details{};
    const std::string scope = "docker-" + container + ".scope";
    details.cgroup = cgroup_of({"system.slice", scope});
    aggregator.on_record(by(pcie_nobody, identity_of("nvidia-smi", 6), access(4)), &details);
    const auto accesses =
        values_of(aggregator.families().snapshots(), "pcie_config_accesses_total");
    CHECK(accesses.size() == 14);
    const auto of = [](const char *op, const char *size, const char *origin) {
        return series::LabelValues{"lspci", "", "", "", "0000:3b:00.0", op, size, origin};
    };
    CHECK(accesses.at(of("read", "1", "driver")) == std::vector<std::uint64_t>{1});
    CHECK(accesses.at(of("write", "2", "driver")) == std::vector<std::uint64_t>{2 + 8});
    CHECK(accesses.at(of("read", "4", "user")) == std::vector<std::uint64_t>{4 + 16});
    CHECK(accesses.at(of("write", "4", "user")) == std::vector<std::uint64_t>{4 + 24});
    CHECK(accesses.at({"lspci", "", "", "", "0001:00:01.2", "read", "4", "driver"}) ==
          std::vector<std::uint64_t>{1});
    CHECK(accesses.at({"nvidia-smi", "", container, "", "0000:3b:00.0", "read", "4", "driver"}) ==
          std::vector<std::uint64_t>{1});
    const auto durations =
        values_of(aggregator.families().snapshots(), "pcie_config_access_duration_seconds");
    const auto &writes = durations.at({"lspci", "", "", "", "write"});
    CHECK(writes.back() == 700 * (7 + 3 * 8 + 7 + 3 * 24));
    CHECK(writes[2] == 7 + 3 * 8 + 7 + 3 * 24);  // 500 to 1000 ns
    CHECK(std::accumulate(writes.begin(), writes.end() - 1, std::uint64_t{0}) == writes[2]);
}

TEST_CASE("reads of nothing but ones are counted where the device was asked") {
    const std::uint32_t ones = ~std::uint32_t{0};
    struct Case {
        std::uint32_t access;
        std::uint32_t value;
        std::int32_t result;
        bool is_all_ones;
        const char *what;
    };
    for (const Case &one :
         {Case{4, ones, 0, true, "a driver's read"},
          Case{4 | PCIE_USER, ones, 0, true, "user space's read"},
          Case{4, ones, 0x86, true, "no such device"},
          Case{4 | PCIE_USER, ones, -ENODEV, true, "no such device, as errno"},
          Case{4, ones, 0x87, false, "no such register"},
          Case{4 | PCIE_USER, ones, -EINVAL, false, "a misaligned register"},
          Case{4, ones - 1, 0, false, "a zero"}, Case{2, 0xffff, 0, false, "a word"},
          Case{2, ones, 0, false, "a word that is none"},
          Case{4 | PCIE_WRITES, ones, 0, false, "a write"}}) {
        INFO(one.what);
        PcieAggregator aggregator({.budget = any, .retention = 1min});
        aggregator.on_record(access(one.access, one.value, one.result));
        std::uint64_t all_ones = 0;
        for (const auto &[labels, values] :
             values_of(aggregator.families().snapshots(), "pcie_config_all_ones_reads_total")) {
            all_ones += values[0];
        }
        CHECK(all_ones == (one.is_all_ones ? 1 : 0));
        const auto errors =
            values_of(aggregator.families().snapshots(), "pcie_config_errors_total");
        REQUIRE(errors.size() == 1);
        CHECK(errors.begin()->second[0] == (one.result == 0 ? 0 : 1));
    }
}

TEST_CASE("interrupts and kernel workers have a name of their own") {
    PcieAggregator aggregator({.budget = any, .pid_label = true, .retention = 1min});
    aggregator.on_record(by(0, process_identity{}, access(4)));
    aggregator.on_record(by(7, identity_of("kworker/0:1", 1), access(4)));
    aggregator.on_record(by(7, identity_of("kworker/u8:2", 1), access(4)));
    const auto accesses =
        values_of(aggregator.families().snapshots(), "pcie_config_accesses_total");
    CHECK(accesses.size() == 2);
    const series::LabelValues rest = {"0000:3b:00.0", "read", "4", "driver"};
    series::LabelValues interrupt = {"interrupt", "", "", "", "0"};
    interrupt.insert(interrupt.end(), rest.begin(), rest.end());
    series::LabelValues worker = {"kworker", "", "", "", "7"};
    worker.insert(worker.end(), rest.begin(), rest.end());
    CHECK(accesses.at(interrupt)[0] == 1);
    CHECK(accesses.at(worker)[0] == 2);
}

TEST_CASE("the series of a process stay until it has been gone for the retention") {
    PcieAggregator aggregator({.budget = any, .retention = 1min});
    const auto started = processes::start_time(static_cast<std::uint32_t>(::getpid()));
    REQUIRE(started);
    aggregator.on_record(by(static_cast<std::uint32_t>(::getpid()),
                            identity_of("alive", static_cast<std::uint64_t>(started->count())),
                            access(4)));
    aggregator.on_record(access(4));
    const auto count = [&] {
        return values_of(aggregator.families().snapshots(), "pcie_config_accesses_total").size();
    };
    aggregator.processes().scan(100s);  // seen to be gone, and ended at the second look
    aggregator.processes().scan(101s);
    (void)aggregator.processes().tidy(160s);
    CHECK(count() == 2);
    (void)aggregator.processes().tidy(162s);
    CHECK(count() == 1);
    aggregator.on_record(access(4));  // it starts again at 0, and is not mixed with others
    const auto accesses =
        values_of(aggregator.families().snapshots(), "pcie_config_accesses_total");
    CHECK(accesses.at({"lspci", "", "", "", "0000:3b:00.0", "read", "4", "driver"})[0] == 1);
    CHECK(accesses.size() == 2);
}

TEST_CASE("accesses past the budget are counted as other") {
    const series::Budget small = [](std::string_view) { return 10U; };
    PcieAggregator aggregator({.budget = small, .retention = 1min});
    for (std::uint32_t slot = 0; slot < 32; slot++) {
        auto record = access(4 | PCIE_USER);
        record.device = pcie_device(0, 1, slot << 3);
        aggregator.on_record(record);
    }
    std::uint64_t sum = 0;
    for (const auto &[labels, values] :
         values_of(aggregator.families().snapshots(), "pcie_config_accesses_total")) {
        sum += values[0];
    }
    CHECK(sum == 32);
    CHECK(aggregator.families().folded().at("gpusnoop_pcie_config_accesses_total") == 22);
}

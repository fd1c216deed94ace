// Accesses to the configuration space of real devices, by user space and by a driver: what the
// probe tells against what was done. The tests for guests are hidden elsewhere; tests/vm/suite.sh
// runs them.
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <tuple>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/ebpf/attach/kernel_hooks.h"
#include "exporter/probes/pcie/aggregator.h"
#include "exporter/probes/pcie/probe.h"
#include "exporter/system/machine.h"
#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/no_perf_events.h"
#include "tests/harness/probe_state.h"
#include "tests/harness/trace.h"

using namespace harness;
using namespace gpusnoop;

namespace {

const std::string accesses = "gpusnoop_pcie_config_accesses_total";
const Labels of_pcie = {{"probe", "pcie"}};

// The guests' devices: see tests/vm/README.md.
const std::string display = "0000:00:10.0";  // class 0x0380
const std::string bridge = "0000:00:01.3";   // class 0x0680
const std::string other = "0000:00:04.0";    // class 0x0002

// Registers that every device has, and that nothing happens by writing to.
constexpr int identity = 0x00;
constexpr int pcie_command = 0x04;
constexpr int interrupt_line = 0x3c;

// As user space does it, through /sys.
class Device {
public:
    explicit Device(const std::string &address)
        : file_(
              ::open(("/sys/bus/pci/devices/" + address + "/config").c_str(), O_RDWR | O_CLOEXEC)) {
        INFO(address);
        REQUIRE(file_);
    }

    std::uint32_t read(int offset, std::size_t size) const {
        std::uint32_t value = 0;
        REQUIRE(::pread(file_.get(), &value, size, offset) == static_cast<ssize_t>(size));
        return value;
    }
    void write(int offset, std::size_t size, std::uint32_t value) const {
        REQUIRE(::pwrite(file_.get(), &value, size, offset) == static_cast<ssize_t>(size));
    }
    // A register of virtio devices whose 32 bits can all be set: the offset of the window that the
    // capability of type 5 opens to their memory.
    [[nodiscard]] int free_register() const {
        for (int at = static_cast<int>(read(0x34, 1)); at != 0;
             at = static_cast<int>(read(at + 1, 1))) {
            if (read(at, 1) == 0x09 && read(at + 3, 1) == 5) {
                return at + 8;
            }
        }
        FAIL("the device has no window to its memory");
        return 0;
    }

private:
    Fd file_;
};

Labels of(const std::string &device, const std::string &op, int size, const std::string &origin) {
    return {{"device", device}, {"op", op}, {"size", std::to_string(size)}, {"origin", origin}};
}

void times(int count, const auto &what) {
    for (int i = 0; i < count; i++) {
        what();
    }
}

}  // namespace

TEST_CASE("where the kernel has no kprobes, the probes that need them say so, and others go on",
          "[kernel][core]") {
    require_bpf();
    const Exporter exporter("pcie: {enabled: true}\nnvlink: {enabled: true}\n");
    const Page page = exporter.scrape();
    const std::string front = http(exporter.port(), "/").body;
    CHECK(page.sum("gpusnoop_probe_up", {{"probe", "cuda"}}) == 1);
    const bool has_kprobes = ebpf::check_kprobes().has_value();
    CHECK(page.sum("gpusnoop_probe_up", of_pcie) == (has_kprobes ? 1 : 0));
    CHECK(page.sum("gpusnoop_probe_attached_functions", of_pcie) == (has_kprobes ? 12 : 0));
    CHECK(page.sum("gpusnoop_probe_up", {{"probe", "nvlink"}}) == 0);
    CHECK(state_of(page, "cuda") == "up");
    CHECK(state_of(page, "pcie") == (has_kprobes ? "up" : "unsupported"));
    CHECK(state_of(page, "nvlink") == "unsupported");
    CHECK(state_of(page, "syscall") == "disabled");
    const std::string reason =
        "this kernel has no kprobes: one with CONFIG_KPROBE_EVENTS is needed";
    CHECK((front.find(reason) != std::string::npos) == !has_kprobes);
    CHECK((exporter.log().find(reason) != std::string::npos) == !has_kprobes);
}

TEST_CASE("accesses are counted by device, operation, size and origin", "[.guest]") {
    const TestModule module;
    const Device gpu(display);
    const Device nvlink(bridge);
    const Device unwanted(other);
    const int window = gpu.free_register();
    const Exporter exporter("pcie: {enabled: true}\n");
    const std::uint32_t line = gpu.read(interrupt_line, 1);

    times(2, [&] { gpu.read(interrupt_line, 1); });
    times(5, [&] { gpu.read(pcie_command, 2); });
    times(7, [&] { gpu.read(identity, 4); });
    times(2, [&] { gpu.write(interrupt_line, 1, line); });
    times(3, [&] { gpu.write(window, 4, ~std::uint32_t{0}); });
    times(4, [&] { CHECK(gpu.read(window, 4) == ~std::uint32_t{0}); });
    times(8, [&] { nvlink.read(identity, 4); });
    times(6, [&] { unwanted.read(identity, 4); });
    module.command("read " + display + " 0x3c 1 11");
    module.command("read " + display + " 0x04 2 12");
    module.command("read " + display + " 0x00 4 13");
    module.command("write " + display + " 0x3c 1 14 " + std::to_string(line));
    module.command("read " + display + " " + std::to_string(window) + " 4 15");
    CHECK(module.answer().value == ~std::uint32_t{0});
    // Registers that cannot be.
    module.command("read " + display + " 0x01 4 16");
    CHECK(module.answer().result != 0);
    // Two of another class, the second without a device.
    module.command("read " + other + " 0x00 4 17");
    module.command("read 0000:00:1f.7 0x00 4 18");

    constexpr double user = 3 + 5 + 7 + 2 + 3 + 4;
    constexpr double driver = 11 + 12 + 13 + 14 + 15 + 16;
    const Page page = exporter.wait_for(accesses, {}, user + driver + 8);
    CHECK(page.sum(accesses, of(display, "read", 1, "user")) == 3);
    CHECK(page.sum(accesses, of(display, "read", 2, "user")) == 5);
    CHECK(page.sum(accesses, of(display, "read", 4, "user")) == 7 + 4);
    CHECK(page.sum(accesses, of(display, "write", 1, "user")) == 2);
    CHECK(page.sum(accesses, of(display, "write", 4, "user")) == 3);
    CHECK(page.sum(accesses, of(bridge, "read", 4, "user")) == 8);
    CHECK(page.sum(accesses, of(display, "read", 1, "driver")) == 11);
    CHECK(page.sum(accesses, of(display, "read", 2, "driver")) == 12);
    CHECK(page.sum(accesses, of(display, "read", 4, "driver")) == 13 + 15 + 16);
    CHECK(page.sum(accesses, of(display, "write", 1, "driver")) == 14);
    CHECK(page.sum(accesses, {{"device", other}}) == 0);
    CHECK(page.sum(accesses, {{"comm", "probes_tests"}, {"container_id", ""}}) ==
          user + driver + 8);
    const std::string all_ones = "gpusnoop_pcie_config_all_ones_reads_total";
    CHECK(page.sum(all_ones) == 4 + 15);
    CHECK(page.sum(all_ones, of(display, "read", 4, "user")) == 4);
    CHECK(page.sum(all_ones, of(display, "read", 4, "driver")) == 15);
    const std::string errors = "gpusnoop_pcie_config_errors_total";
    CHECK(page.sum(errors) == 16);
    CHECK(page.sum(errors, of(display, "read", 4, "driver")) == 16);
    const std::string durations = "gpusnoop_pcie_config_access_duration_seconds_count";
    CHECK(page.sum(durations, {{"op", "write"}}) == 2 + 3 + 14);
    CHECK(page.sum(durations) == user + driver + 8);
    CHECK(page.sum("gpusnoop_pcie_config_access_duration_seconds_sum") > 0);
    CHECK(page.sum("gpusnoop_probe_attached_functions", of_pcie) == 12);
    CHECK(page.sum("gpusnoop_probe_entries_total", of_pcie) == user + driver + 8);
    CHECK(page.sum("gpusnoop_probe_events_total", of_pcie) == user + driver + 8);
    CHECK(page.sum("gpusnoop_probe_unmatched_returns_total", of_pcie) == 0);
    CHECK(page.sum("gpusnoop_probe_stale_calls_total", of_pcie) == 0);
    CHECK(page.sum("gpusnoop_probe_events_lost_total", of_pcie) == 0);
}

TEST_CASE("accesses are counted without perf events", "[.guest]") {
    REQUIRE(ebpf::has_kprobe_links());
    const NoPerfEvents refused;
    const Device gpu(display);
    const Exporter exporter("pcie: {enabled: true}\n", NoPerfEvents::starter());
    CHECK(state_of(exporter.scrape(), "pcie") == "up");
    times(21, [&] { gpu.read(identity, 4); });
    const Page page = exporter.wait_for(accesses, {}, 21);
    CHECK(page.sum(accesses, of(display, "read", 4, "user")) == 21);
    CHECK(page.sum(accesses, {{"comm", "probes_tests"}}) == 21);
    CHECK(page.sum("gpusnoop_probe_attached_functions", of_pcie) == 12);
    CHECK(page.sum("gpusnoop_probe_unmatched_returns_total", of_pcie) == 0);
}

TEST_CASE("an access is told with its register, its value, its result and its duration",
          "[.guest]") {
    const TestModule module;
    const Device gpu(display);
    const Device nvlink(bridge);
    const int window = gpu.free_register();
    std::vector<pcie_record> records;
    const config::Config config;
    CHECK(probes::find_pci_devices(config.of<probes::PcieConfig>().classes) ==
          std::set{*probes::pci_device(display), *probes::pci_device(bridge)});
    const auto probe = probes::make_pcie_tracer(
        config, [&](const pcie_record &record, const auto &) { records.push_back(record); });
    const auto started = probe->start();
    INFO((started ? "" : started.error().message));
    REQUIRE(started);
    CHECK(probe->health().attached_functions == 12);

    // Device, offset, access, value; the result is 0 but for the last.
    using Access = std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t>;
    std::vector<Access> done;
    const auto began = now_on(CLOCK_MONOTONIC);
    for (const std::uint32_t size : {1U, 2U, 4U}) {
        done.emplace_back(display, identity, size | PCIE_USER, gpu.read(identity, size));
        done.emplace_back(bridge, identity, size | PCIE_USER, nvlink.read(identity, size));
        module.command("read " + display + " 0x04 " + std::to_string(size) + " 1");
        done.emplace_back(display, pcie_command, size, module.answer().value);
    }
    for (const std::uint32_t value : {0x12345678U, 0U, 0xffffffffU, 0x80000001U}) {
        gpu.write(window, 4, value);
        done.emplace_back(display, window, 4 | PCIE_WRITES | PCIE_USER, value);
        done.emplace_back(display, window, 4 | PCIE_USER, gpu.read(window, 4));
        CHECK(std::get<3>(done.back()) == value);
        gpu.write(window, 2, value & 0xffffU);
        done.emplace_back(display, window, 2 | PCIE_WRITES | PCIE_USER, value & 0xffffU);
        module.command("write " + display + " " + std::to_string(window) + " 1 1 " +
                       std::to_string(value & 0xffU));
        done.emplace_back(display, window, 1 | PCIE_WRITES, value & 0xffU);
    }
    module.command("read " + display + " 0x01 4 1");
    done.emplace_back(display, 1, 4, 0);
    const auto ended = now_on(CLOCK_MONOTONIC);

    probe->drain();
    REQUIRE(records.size() == done.size());
    std::uint64_t last = static_cast<std::uint64_t>(began.count());
    for (std::size_t i = 0; i < done.size(); i++) {
        CAPTURE(i);
        const pcie_record &record = records[i];
        const bool is_last = i + 1 == done.size();
        const auto &[device, offset, access, value] = done[i];
        CHECK(probes::pci_address(record.device) == device);
        CHECK(record.offset == offset);
        CHECK(record.access == access);
        if (!is_last) {
            CHECK(record.value == value);
        }
        CHECK(record.result == (is_last ? module.answer().result : 0));
        CHECK(record.tgid == static_cast<std::uint32_t>(::getpid()));
        CHECK(record.tid == static_cast<std::uint32_t>(::gettid()));
        CHECK(record.flags == 0);
        CHECK(std::string(record.identity.comm) == "probes_tests");
        // One after the other, each within the time that all of them took.
        CHECK(record.ended_ns - record.duration_ns >= last);
        last = record.ended_ns;
    }
    CHECK(last <= static_cast<std::uint64_t>(ended.count()));
    CHECK(probe->health().undecodable == 0);
}

TEST_CASE("each access is a line of the trace, with what was read or written", "[.guest]") {
    using nlohmann::json;
    const TestModule module;
    const Device gpu(display);
    const Device nvlink(bridge);
    const Device unwanted(other);
    const int window = gpu.free_register();
    const std::string at_window = fmt::format("{:#x}", window);
    Trace trace("pcie", "{}", {"--pid=" + std::to_string(::getpid())});

    std::vector<json> expected;
    const auto did = [&](const std::string &device, const std::string &op,
                         const std::string &offset, const json &name, int size, std::uint32_t value,
                         const std::string &origin) {
        expected.push_back({{"device", device},
                            {"op", op},
                            {"offset", offset},
                            {"register", name},
                            {"size", size},
                            {"value", fmt::format("{:#x}", value)},
                            {"origin", origin},
                            {"result", 0},
                            {"error", nullptr}});
    };
    did(display, "read", "0x4", "command", 2, gpu.read(pcie_command, 2), "user");
    did(bridge, "read", "0x0", "vendor_id", 4, nvlink.read(identity, 4), "user");
    unwanted.read(identity, 4);
    CHECK(run({"od", "-N4", "/sys/bus/pci/devices/" + display + "/config"}).code == 0);
    gpu.write(window, 4, 0xcafe0001U);
    did(display, "write", at_window, "vendor_specific+0x8", 4, 0xcafe0001U, "user");
    module.command("read " + display + " " + std::to_string(window) + " 4 2");
    did(display, "read", at_window, "vendor_specific+0x8", 4, 0xcafe0001U, "driver");
    did(display, "read", at_window, "vendor_specific+0x8", 4, 0xcafe0001U, "driver");
    module.command("read " + display + " 0x01 4 1");
    did(display, "read", "0x1", "vendor_id+0x1", 4, 0, "driver");
    expected.back()["result"] = module.answer().result;
    expected.back()["error"] = "PCIBIOS_BAD_REGISTER_NUMBER";

    const auto lines = trace.finish();
    REQUIRE(lines.size() == expected.size());
    for (std::size_t i = 0; i < lines.size(); i++) {
        CAPTURE(lines[i].dump());
        for (const auto &[key, value] : expected[i].items()) {
            CAPTURE(key);
            // What a failed read gives is the kernel's affair.
            if (key != "value" || expected[i]["result"] == 0) {
                CHECK(lines[i][key] == value);
            }
        }
        CHECK(lines[i]["pid"] == ::getpid());
        CHECK(lines[i]["tid"] == ::gettid());
        CHECK(lines[i]["comm"] == "probes_tests");
        CHECK(lines[i]["duration_ns"] > 0);
    }
}

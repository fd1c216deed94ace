// The memory that tensors hold, on the page against what PyTorch's allocator asked for.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// Of the lines "truth PID DEVICE ..." of `tensors`; the last of each process and device.
struct OfDevice {
    double allocations = 0;
    double allocation_bytes = 0;
    double frees = 0;
    double free_bytes = 0;
    double untracked = 0;
    double out_of_memory = 0;
    double allocated = 0;
    double reserved = 0;
    double held = 0;
    double held_bytes = 0;
};

struct TorchTruth {
    std::map<std::pair<std::string, std::string>, OfDevice> devices;  // by pid and device
    std::map<std::pair<std::string, std::string>, double> sites;      // by pid and function

    explicit TorchTruth(const std::string &output) {
        std::istringstream lines(output);
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string word;
            std::string pid;
            std::string name;
            words >> word >> pid >> name;
            OfDevice of;
            double bytes = 0;
            if (word == "truth" && words >> of.allocations >> of.allocation_bytes >> of.frees >>
                                       of.free_bytes >> of.untracked >> of.out_of_memory >>
                                       of.allocated >> of.reserved >> of.held >> of.held_bytes) {
                devices[{pid, name}] = of;
            } else if (word == "site" && words >> bytes) {
                sites[{pid, name}] = bytes;
            }
        }
    }
    [[nodiscard]] double sum(double OfDevice::*value) const {
        double sum = 0;
        for (const auto &[of, device] : devices) {
            sum += device.*value;
        }
        return sum;
    }
    [[nodiscard]] double calls() const {
        return sum(&OfDevice::allocations) + sum(&OfDevice::frees) + sum(&OfDevice::untracked) +
               sum(&OfDevice::out_of_memory);
    }
};

// Without scans, ends of processes are seen by their records alone.
std::string torch_enabled(const std::string &mode, const std::string &more = "") {
    return "cuda: {enabled: false}\nlabels: {pid: true}\ndiscovery: {rescan_interval: 1h}\ntorch: "
           "{enabled: true, attach: " +
           mode + more + "}\n";
}

std::vector<std::string> tensors(const std::string &version, const TemporaryDirectory &directory,
                                 const std::vector<std::string> &more) {
    std::vector<std::string> command{standin("torch/" + version + "/tensors"), "--wait-for-file",
                                     directory / "go"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
}

void check_counters(const Page &page, const TorchTruth &truth, const std::string &comm) {
    for (const auto &[of, device] : truth.devices) {
        INFO(of.first << ' ' << of.second);
        const Labels labels = {{"comm", comm}, {"pid", of.first}, {"device", of.second}};
        const auto sum = [&](const std::string &family) {
            return page.sum("gpusnoop_torch_" + family, labels);
        };
        CHECK(sum("memory_allocations_total") == device.allocations);
        CHECK(sum("memory_allocation_bytes_total") == device.allocation_bytes);
        CHECK(sum("memory_frees_total") == device.frees);
        CHECK(sum("memory_free_bytes_total") == device.free_bytes);
        CHECK(sum("memory_untracked_frees_total") == device.untracked);
        CHECK(sum("out_of_memory_total") == device.out_of_memory);
        CHECK(sum("memory_outstanding_allocations") == device.held);
        CHECK(sum("memory_outstanding_bytes") == device.held_bytes);
    }
}

void torch_check_sums(const Page &page, const TorchTruth &truth) {
    for (const auto &[of, device] : truth.devices) {
        INFO(of.first << ' ' << of.second);
        const Labels labels = {{"pid", of.first}, {"device", of.second}};
        CHECK(page.sum("gpusnoop_torch_memory_allocated_bytes", labels) == device.allocated);
        CHECK(page.sum("gpusnoop_torch_memory_reserved_bytes", labels) == device.reserved);
    }
}

// What the page says of the sites whose names contain this.
double held_by(const Page &page, const std::string &pid, const std::string &function) {
    double bytes = 0;
    for (const Sample &sample :
         page.samples("gpusnoop_torch_memory_site_outstanding_bytes", {{"pid", pid}})) {
        bytes += sample.labels.at("site").find(function) != std::string::npos ? sample.value : 0;
    }
    return bytes;
}

void check_sites(const Exporter &exporter, const TorchTruth &truth) {
    for (const auto &[of, bytes] : truth.sites) {
        INFO(of.first << ' ' << of.second);
        Page page = exporter.scrape();
        eventually("sites to have names", [&] {
            page = exporter.scrape();
            return held_by(page, of.first, of.second) == bytes;
        });
        CHECK(held_by(page, of.first, of.second) == bytes);
    }
}

// All calls are seen: none is lost or still to come.
void torch_check_account(const Page &page, double calls) {
    const Labels of = {{"probe", "torch"}};
    CHECK(page.sum("gpusnoop_probe_entries_total", of) == calls);
    CHECK(page.sum("gpusnoop_probe_events_total", of) == calls);
    CHECK(page.sum("gpusnoop_probe_events_lost_total", of) == 0);
    CHECK(page.sum("gpusnoop_probe_in_flight_calls", of) == 0);
}

void wait_until_counted(const Exporter &exporter, const TorchTruth &truth,
                        const std::string &comm) {
    (void)exporter.wait_for("gpusnoop_torch_memory_frees_total", {{"comm", comm}},
                            truth.sum(&OfDevice::frees));
    (void)exporter.wait_for("gpusnoop_torch_memory_allocations_total", {{"comm", comm}},
                            truth.sum(&OfDevice::allocations));
}

nlohmann::json document_of(const Exporter &exporter, pid_t pid) {
    const HttpAnswer answer =
        http(exporter.port(), "/api/v1/torch_allocations?pid=" + std::to_string(pid));
    REQUIRE(answer.status == 200);
    return nlohmann::json::parse(answer.body);
}

}  // namespace

TEST_CASE("the memory of tensors is counted as PyTorch's allocator gives it out",
          "[kernel][core][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    Process program(tensors("2", directory, {"--threads", "8", "--early", "20", "--fork"}));
    program.wait_for_output("waits");
    const Exporter exporter(torch_enabled(mode));
    exporter.wait_until_attached_to(standin("torch/2/libc10.so"));
    write_file(directory / "go", "");
    // The child's and its own.
    eventually("both processes to hold", [&] {
        const std::string said = program.output();
        return said.find("holding") != said.rfind("holding");
    });
    const TorchTruth held(program.output());
    REQUIRE(held.devices.size() == 4);
    REQUIRE(held.sum(&OfDevice::untracked) == 11);
    REQUIRE(held.sum(&OfDevice::out_of_memory) > 0);
    wait_until_counted(exporter, held, "tensors");
    Page page = exporter.scrape();
    check_counters(page, held, "tensors");
    torch_check_sums(page, held);
    torch_check_account(page, held.calls());
    check_sites(exporter, held);

    const auto document = document_of(exporter, program.pid());
    REQUIRE(document["processes"].size() == 1);
    const auto &process = document["processes"][0];
    const std::string pid = std::to_string(program.pid());
    CHECK(process["complete"] == false);  // it holds blocks from before
    CHECK(process["outstanding_bytes"] == held.devices.at({pid, "cuda:0"}).held_bytes +
                                              held.devices.at({pid, "cuda:1"}).held_bytes);

    program.signal(SIGUSR1);
    program.wait_for_output("waiting");
    const TorchTruth freed(program.output());
    CHECK(freed.sum(&OfDevice::frees) == held.sum(&OfDevice::frees) + 5);
    wait_until_counted(exporter, freed, "tensors");
    page = exporter.scrape();
    check_counters(page, freed, "tensors");
    torch_check_sums(page, freed);
    check_sites(exporter, freed);

    program.finish();
    eventually("its memory to leave the page", [&] {
        return !exporter.scrape().has("gpusnoop_torch_memory_allocated_bytes",
                                      {{"comm", "tensors"}});
    });
    page = exporter.scrape();
    CHECK_FALSE(page.has("gpusnoop_torch_memory_reserved_bytes", {{"comm", "tensors"}}));
    CHECK_FALSE(page.has("gpusnoop_torch_memory_outstanding_bytes", {{"comm", "tensors"}}));
    CHECK_FALSE(page.has("gpusnoop_torch_memory_site_outstanding_bytes", {{"comm", "tensors"}}));
    CHECK(page.sum("gpusnoop_torch_memory_frees_total", {{"comm", "tensors"}}) ==
          freed.sum(&OfDevice::frees));
}

TEST_CASE("the allocators of older versions of PyTorch count, too", "[kernel]") {
    require_bpf();
    const std::string version = GENERATE("1.8", "1.13");
    CAPTURE(version);
    const TemporaryDirectory directory;
    Process program(tensors(version, directory, {"--early", "4"}));
    program.wait_for_output("waits");
    const Exporter exporter(torch_enabled("auto"));
    exporter.wait_until_attached_to(standin("torch/" + version + "/libc10.so"));
    write_file(directory / "go", "");
    program.wait_for_output("holding");
    const TorchTruth truth(program.output());
    wait_until_counted(exporter, truth, "tensors");
    const Page page = exporter.scrape();
    check_counters(page, truth, "tensors");
    torch_check_account(page, truth.calls());
    check_sites(exporter, truth);
    if (version == "1.8") {  // it reports no sums
        CHECK_FALSE(page.has("gpusnoop_torch_memory_allocated_bytes"));
        CHECK_FALSE(page.has("gpusnoop_torch_memory_reserved_bytes"));
    } else {
        CHECK(truth.sum(&OfDevice::out_of_memory) > 0);
        torch_check_sums(page, truth);
    }
}

TEST_CASE("sums of the allocator are right after reports of it were lost", "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    Exporter exporter(torch_enabled("auto", ", ring_bytes: 4KiB"));
    Process program(tensors("2", directory, {}));
    exporter.wait_until_attached_to(standin("torch/2/libc10.so"));
    exporter.process().signal(SIGSTOP);
    write_file(directory / "go", "");
    program.wait_for_output("holding");
    exporter.process().signal(SIGCONT);
    (void)exporter.scrape();  // empties the ring
    program.signal(SIGUSR1);
    program.wait_for_output("waiting");
    const TorchTruth truth(program.output());
    const std::string pid = std::to_string(program.pid());
    const auto &device = truth.devices.at({pid, "cuda:0"});
    const Page page = exporter.wait_for("gpusnoop_torch_memory_allocated_bytes",
                                        {{"pid", pid}, {"device", "cuda:0"}}, device.allocated);
    CHECK(page.sum("gpusnoop_torch_memory_reserved_bytes", {{"pid", pid}, {"device", "cuda:0"}}) ==
          device.reserved);
    const double lost =
        page.sum("gpusnoop_probe_events_lost_total", {{"probe", "torch"}, {"reason", "ring_full"}});
    CHECK(lost > 1000);
    CHECK(page.sum("gpusnoop_probe_entries_total", {{"probe", "torch"}}) == truth.calls());
    CHECK(page.sum("gpusnoop_probe_events_total", {{"probe", "torch"}}) + lost == truth.calls());
    // Their allocation was seen, or it is counted as not seen.
    CHECK(page.sum("gpusnoop_torch_memory_untracked_frees_total", {{"comm", "tensors"}}) +
              page.sum("gpusnoop_torch_memory_frees_total", {{"comm", "tensors"}}) >=
          5);
    // What was lost may be of blocks that it does not hold any more.
    bool is_complete = true;
    for (const auto &[of, sums] : truth.devices) {
        const Labels on_device = {{"pid", pid}, {"device", of.second}};
        is_complete = is_complete && (of.first != pid || page.sum("gpusnoop_torch_memory_"
                                                                  "outstanding_bytes",
                                                                  on_device) == sums.allocated);
    }
    CHECK(document_of(exporter, program.pid())["processes"][0]["complete"] == is_complete);
}

TEST_CASE("without its stacks, an allocation is known by the instruction after the call",
          "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const Exporter exporter(torch_enabled("auto", ", call_stacks: false"));
    Process program(tensors("2", directory, {}));
    exporter.wait_until_attached_to(standin("torch/2/libc10.so"));
    write_file(directory / "go", "");
    program.wait_for_output("holding");
    const TorchTruth truth(program.output());
    const std::string pid = std::to_string(program.pid());
    eventually("the one site to have a name", [&] {
        return held_by(exporter.scrape(), pid, "standin::Allocator::") ==
               truth.sum(&OfDevice::held_bytes);
    });
    CHECK(document_of(exporter, program.pid())["processes"][0]["complete"] == true);
}

TEST_CASE("a few tensors are counted on another kernel", "[.guest]") {
    const TemporaryDirectory directory;
    const Process program(
        tensors("2", directory, {"--threads", "2", "--rounds", "10", "--early", "4"}));
    program.wait_for_output("waits");
    const Exporter exporter(torch_enabled("auto"));
    exporter.wait_until_attached_to(standin("torch/2/libc10.so"));
    write_file(directory / "go", "");
    program.wait_for_output("holding");
    const TorchTruth truth(program.output());
    wait_until_counted(exporter, truth, "tensors");
    const Page page = exporter.scrape();
    check_counters(page, truth, "tensors");
    torch_check_sums(page, truth);
    torch_check_account(page, truth.calls());
}

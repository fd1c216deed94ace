// Lines of the driver, as people have shown them in public issues, and what is wrong with others.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/base/text/text.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/xid/probe.h"
#include "exporter/probes/xid/report.h"

using namespace gpusnoop::probes;
using namespace gpusnoop;
using Source = probes::XidConfig::Source;

namespace {

XidReport read(const std::string &line) {
    const auto report = read_report(line);
    INFO(line);
    REQUIRE(report);
    return *report;
}

XidReport xid(std::uint32_t code, const std::string &text) {
    return make_report(false, "0000:01:00.0", code, text);
}

}  // namespace

TEST_CASE("an Xid's line gives the device, the code, the process and the text") {
    // Driver 515: github.com/NVIDIA/open-gpu-kernel-modules/issues/363.
    const XidReport fault = read(
        "NVRM: Xid (PCI:0000:08:00): 31, pid=169800, name=chrome, Ch 00000023, intr 00000000. MMU "
        "Fault: ENGINE CE0 HUBCLIENT_HSCE0 faulted @ 0x0_0abe0000. Fault is of type FAULT_PTE "
        "ACCESS_TYPE_VIRT_READ\n");
    CHECK(!fault.is_switch);
    CHECK(fault.device == "0000:08:00.0");
    CHECK(fault.code == 31);
    CHECK(fault.pid == 169'800);
    CHECK(fault.process_name == "chrome");
    CHECK(fault.text.starts_with("pid=169800, name=chrome, Ch 00000023, intr"));
    CHECK(!fault.gpu_instance);
    // Driver 590: issue 1150 of the same.
    const XidReport removal = read(
        "NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous "
        "Xid 149");
    CHECK(removal.code == 45);
    CHECK(removal.pid == 1'818'990);
    CHECK(removal.process_name == "python3");
    // A GPU that is divided.
    const XidReport instance = read(
        "NVRM: Xid (PCI:0019:c1:00 GPU-I:03 GPU-CI:01): 94, pid=7, name=a, Contained: SM (0x1)");
    CHECK(instance.device == "0019:c1:00.0");
    CHECK(instance.gpu_instance == 3);
    CHECK(instance.compute_instance == 1);
    CHECK(read("NVRM: Xid (PCI:0000:c1:00 GPU-I:09): 95, x").gpu_instance == 9);
}

TEST_CASE("lines of older drivers, and such without a process, are read too") {
    // Driver 418: github.com/doitsujin/dxvk/issues/1027.
    const XidReport old = read("NVRM: Xid (PCI:0000:01:00): 31, Ch 0000005a, intr 10000000.");
    CHECK(!old.pid);
    CHECK(old.process_name.empty());
    CHECK(old.text == "Ch 0000005a, intr 10000000.");
    // The process's id alone: github.com/xtknight/vdpau-va-driver-vp9/issues/2.
    const XidReport id = read("NVRM: Xid (PCI:0000:00:06): 31, pid=2708, Ch 0000003d, intr 1.");
    CHECK(id.pid == 2708);
    CHECK(id.process_name.empty());
    // Of still older ones: pastebin.com/NGng33SB.
    CHECK(read("NVRM: Xid (0000:01:00): 31, Ch 0000000b, engmask 00000120").device ==
          "0000:01:00.0");
    for (const std::string process :
         {"pid='<unknown>', name=<unknown>, ", "pid=0, name=swapper, ", ""}) {
        const XidReport bus =
            read("NVRM: Xid (PCI:0000:3b:00): 79, " + process + "GPU has fallen off the bus.");
        CHECK(bus.code == 79);
        CHECK(!bus.pid);
        CHECK(bus.process_name.empty());
        CHECK(bus.text.ends_with("GPU has fallen off the bus."));
    }
    CHECK(read("NVRM: Xid (PCI:0000:3b:00): 119").code == 119);
}

TEST_CASE("an SXid's line gives the switch, the code and how bad it is") {
    // github.com/NVIDIA/nvtrust/issues/124.
    const std::string start = "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, ";
    const XidReport link = read(start + "Non-fatal, Link 44 Minion Link DLREQ interrupt");
    CHECK(link.is_switch);
    CHECK(link.device == "0000:04:00.0");
    CHECK(link.code == 22'013);
    CHECK(severity_of(link) == "nonfatal");
    CHECK(!continues_report(link));
    CHECK(continues_report(read(start + "Severity 0 Engine instance 44 Sub-engine instance 00")));
    CHECK(continues_report(read(start + "Data {0x0000002b, 0x0000002b, 0x00000000}")));
    CHECK(severity_of(read("nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 30 LTSSM "
                           "Fault Up")) == "fatal");
    CHECK(severity_of(read("nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 10004, Thermal event")) ==
          "unknown");
}

TEST_CASE("the driver's tracepoint gives the same report as its line") {
    const std::string text = "pid=1234, name=python3, Ch 00000008";
    CHECK(make_report(false, "0000:3b:00.0", 13, text) ==
          read("NVRM: Xid (PCI:0000:3b:00): 13, " + text));
}

TEST_CASE("lines that are no reports are refused") {
    for (const std::string line : {"",
                                   "NVRM",
                                   "NVRM: Xid",
                                   "NVRM: Xid (",
                                   "NVRM: Xid (PCI:0000:3b:00)",
                                   "NVRM: Xid (PCI:0000:3b:00): ",
                                   "NVRM: Xid (PCI:0000:3b:00): x, y",
                                   "NVRM: Xid (PCI:0000:3b:00): -1, y",
                                   "NVRM: Xid (PCI:0000:3b:00): 79x",
                                   "NVRM: Xid (PCI:0000:3b:00): 99999999999, y",
                                   "NVRM: Xid (PCI:0000:3b): 79, y",
                                   "NVRM: Xid (PCI:0000:3b:ff): 79, y",
                                   "NVRM: Xid (PCI:zz:3b:00): 79, y",
                                   "NVRM: Xid (): 79, y",
                                   " NVRM: Xid (PCI:0000:3b:00): 79, y",
                                   "a program: NVRM: Xid (PCI:0000:3b:00): 79, y",
                                   "NVRM: GPU at PCI:0000:3b:00: GPU-8a47",
                                   "nvidia-nvswitch: SXid (PCI:0000:04:00.0): 22013, x",
                                   "nvidia-nvswitch0: SXid (PCI:0000:04:00.9): 22013, x",
                                   "nvidia-nvswitchx: SXid (PCI:0000:04:00.0): 22013, x"}) {
        INFO(line);
        CHECK(!read_report(line));
    }
}

TEST_CASE("text from a process does no harm") {
    // A process chooses its name, which may have anything but a NUL.
    const XidReport comma = read("NVRM: Xid (PCI:0000:3b:00): 13, pid=5, name=a, b, Ch 00000008");
    CHECK(comma.pid == 5);
    CHECK(comma.process_name == "a");
    const XidReport lines =
        read("NVRM: Xid (PCI:0000:3b:00): 13, pid=5, name=a\nNVRM: Xid (, Ch 00000008");
    CHECK(lines.pid == 5);
    CHECK(lines.process_name.empty());
    const XidReport bytes = read("NVRM: Xid (PCI:0000:3b:00): 13, pid=5, name=\xff\x1b[2J, Ch 8");
    CHECK(bytes.process_name == "\xEF\xBF\xBD\xEF\xBF\xBD[2J");
    const XidReport huge =
        read("NVRM: Xid (PCI:0000:3b:00): 13, pid=5, name=" + std::string(5'000, 'n') + ", " +
             std::string(5'000, 'x'));
    CHECK(huge.process_name.size() <= 128);
    CHECK(huge.text.size() <= max_report_bytes);
    CHECK(gpusnoop::find_invalid_utf8(bytes.text) == std::string::npos);
}

TEST_CASE("an Xid's class is what NVIDIA's table says to do") {
    CHECK(class_of(xid(79, "GPU has fallen off the bus.")) == XidClass::hardware);
    CHECK(class_of(xid(48, "")) == XidClass::hardware);
    CHECK(class_of(xid(13, "")) == XidClass::application);
    CHECK(class_of(xid(31, "")) == XidClass::application);
    CHECK(class_of(xid(94, "")) == XidClass::application);
    CHECK(class_of(xid(43, "")) == XidClass::information);
    CHECK(class_of(xid(63, "")) == XidClass::information);
    for (const std::uint32_t code : {0U, 1U, 61U, 87U, 142U, 162U, 172U, 9999U, 4'000'000'000U}) {
        CHECK(class_of(xid(code, "")) == XidClass::unknown);
    }
}

TEST_CASE("the text decides the class of a few Xids") {
    CHECK(class_of(xid(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x0)")) == XidClass::hardware);
    CHECK(class_of(xid(145, "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0)")) == XidClass::information);
    const std::string changed = "GPU recovery action changed from ";
    CHECK(class_of(xid(154, changed + "0x0 (None) to 0x2 (Node Reboot Required)")) ==
          XidClass::hardware);
    CHECK(class_of(xid(154, changed + "0x1 (GPU Reset Required) to 0x0 (None)")) ==
          XidClass::information);
}

// The block `xid:` of the configuration.

namespace {

Result<config::Config> parse(const std::string &text) {
    return config::parse(text, "c", probes::setting_blocks());
}

}  // namespace

TEST_CASE("the settings of xid are read") {
    const auto config =
        parse("xid: {enabled: false, source: driver, count_written_lines: true, ring_bytes: 4KiB}");
    REQUIRE(config);
    CHECK(config->of<probes::XidConfig>() ==
          probes::XidConfig{false, Source::driver, true, 4U << 10U});
}

TEST_CASE("wrong settings of xid are refused") {
    for (const std::string text :
         {"xid: {source: nvml}", "xid: {ring_bytes: 1KiB}", "xid: {classes: []}"}) {
        INFO(text);
        CHECK_FALSE(parse(text));
    }
}

TEST_CASE("only a probe that reads /dev/kmsg asks for the privilege to") {
    CHECK(probes::reads_kernel_log(*parse("xid: {source: kmsg}")));
    CHECK(!probes::reads_kernel_log(*parse("xid: {source: printk}")));
    CHECK(!probes::reads_kernel_log(*parse("xid: {enabled: false, source: kmsg}")));
}

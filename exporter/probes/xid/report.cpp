#include "exporter/probes/xid/report.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/probes/frame/pci_address.h"

namespace gpusnoop::probes {

namespace {

bool cut(std::string_view &text, std::string_view prefix) {
    if (!text.starts_with(prefix)) {
        return false;
    }
    text.remove_prefix(prefix.size());
    return true;
}

// Removes a decimal number.
std::optional<std::uint32_t> cut_number(std::string_view &text) {
    std::uint32_t number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const auto digits = static_cast<std::size_t>(stop - text.data());
    if (error != std::errc()) {
        return std::nullopt;
    }
    text.remove_prefix(digits);
    return number;
}

// What is between the start of `text` and `end`; removes both.
std::optional<std::string_view> cut_until(std::string_view &text, std::string_view end) {
    const std::size_t at = text.find(end);
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view head = text.substr(0, at);
    text.remove_prefix(at + end.size());
    return head;
}

// "0000:3b:00", or the same with the function, to the form of /sys. Empty: not an address.
std::string device_of(std::string_view address) {
    const bool has_function = address.find('.') != std::string_view::npos;
    const auto device = pci_device(std::string(address) + (has_function ? "" : ".0"));
    return device ? pci_address(*device) : std::string();
}

// "PCI:0000:3b:00 GPU-I:01 GPU-CI:00"; old drivers have no "PCI:".
bool read_device(std::string_view where, XidReport &report) {
    (void)cut(where, "PCI:");
    report.device = device_of(where.substr(0, where.find(' ')));
    if (report.device.empty()) {
        return false;
    }
    where.remove_prefix(std::min(where.size(), where.find(' ')));
    if (cut(where, " GPU-I:")) {
        report.gpu_instance = cut_number(where);
    }
    if (cut(where, " GPU-CI:")) {
        report.compute_instance = cut_number(where);
    }
    return true;
}

// "pid=1234, name=python3, " or "pid='<unknown>', name=<unknown>, ", where there is such. A name
// may have any characters, also a comma.
void read_process(std::string_view &text, XidReport &report) {
    if (!text.starts_with("pid=")) {
        return;
    }
    std::string_view rest = text.substr(std::string_view("pid=").size());
    if (const auto pid = cut_number(rest); pid && *pid != 0) {
        report.pid = pid;
    }
    if (!cut_until(rest, ", ")) {
        return;
    }
    text = rest;
    if (!cut(rest, "name=")) {
        return;
    }
    const auto name = cut_until(rest, ", ");
    if (!name) {
        return;
    }
    if (report.pid) {
        report.process_name = to_valid_utf8(*name, max_label_bytes);
    }
    text = rest;
}

std::optional<XidReport> read_after_kind(std::string_view line, bool is_switch) {
    XidReport report;
    const auto where = cut_until(line, "): ");
    if (!where || !read_device(*where, report)) {
        return std::nullopt;
    }
    const auto code = cut_number(line);
    if (!code || (!line.empty() && !cut(line, ",") && line.front() != ' ')) {
        return std::nullopt;
    }
    (void)cut(line, " ");
    XidReport read = make_report(is_switch, std::move(report.device), *code, line);
    read.gpu_instance = report.gpu_instance;
    read.compute_instance = report.compute_instance;
    return read;
}

}  // namespace

std::optional<XidReport> read_report(std::string_view line) {
    line = line.substr(0, line.find('\n'));
    if (cut(line, "NVRM: Xid (")) {
        return read_after_kind(line, false);
    }
    if (!cut(line, "nvidia-nvswitch") || !cut_number(line) || !cut(line, ": SXid (")) {
        return std::nullopt;
    }
    return read_after_kind(line, true);
}

XidReport make_report(bool is_switch, std::string device, std::uint32_t code,
                      std::string_view text) {
    XidReport report;
    report.is_switch = is_switch;
    report.device = std::move(device);
    report.code = code;
    text = text.substr(0, text.find('\n'));
    report.text = to_valid_utf8(text, max_report_bytes);
    read_process(text, report);
    return report;
}

bool continues_report(const XidReport &report) {
    const std::string_view text = report.text;
    return report.is_switch && (text.starts_with("Severity ") || text.starts_with("Data {"));
}

namespace {

struct Range {
    std::uint16_t first, last;
    XidClass of;
};

constexpr XidClass hardware = XidClass::hardware;
constexpr XidClass application = XidClass::application;
constexpr XidClass information = XidClass::information;

// In the order of the codes. Codes that are not here are unused in the table, or have no action.
constexpr Range table[] = {
    {8, 8, application},      // GPU stopped processing
    {11, 11, application},    // invalid or corrupted push buffer stream
    {13, 13, application},    // graphics engine exception
    {14, 14, information},    // of tests of the driver
    {25, 25, application},    // invalid or illegal push buffer stream
    {31, 32, application},    // GPU memory page fault; push buffer stream
    {37, 38, information},    // driver firmware error
    {39, 41, application},    // copy engines
    {43, 45, information},    // channels that follow another error
    {46, 46, hardware},       // GPU stopped processing
    {48, 48, hardware},       // double bit ECC error
    {54, 54, hardware},       // no auxiliary power
    {60, 60, application},    // video processor
    {62, 62, hardware},       // micro-controller halt
    {63, 63, information},    // memory row remapped
    {64, 64, hardware},       // memory row not remapped
    {66, 67, information},    // illegal access by driver
    {68, 72, application},    // video decoder, graphics class, copy engines
    {74, 74, hardware},       // NVLink error
    {75, 77, application},    // copy engines
    {78, 79, hardware},       // vGPU start error; fallen off the bus
    {80, 80, application},    // corrupted data sent to GPU
    {82, 86, application},    // JPEG and video decoders, copy engine, optical flow
    {88, 89, application},    // video decoders
    {92, 93, information},    // high single-bit ECC rate; InfoROM wear
    {94, 94, application},    // contained memory error
    {95, 95, hardware},       // uncontained memory error
    {96, 105, application},   // video and JPEG decoders
    {106, 108, information},  // test messages
    {109, 110, hardware},     // context switch timeout; security fault
    {119, 120, hardware},     // GSP
    {121, 121, information},  // C2C error
    {126, 135, application},  // copy engines
    {136, 136, hardware},     // link training failed
    {137, 137, information},  // NVLink privilege error
    {139, 139, application},  // optical flow
    {140, 140, hardware},     // unrecovered ECC error
    {141, 141, information},  // CUDA fast path
    {143, 151, hardware},     // GPU initialization; NVLink 5; key rotation
    {152, 153, information},  // DLA
    {154, 156, hardware},     // recovery action changed; NVLink; resource retirement
    {157, 157, information},  // resource retirement failure
    {158, 159, hardware},     // fatal timeout; CHI non-data error
    {160, 161, information},  // channel retirement
};

bool has(const XidReport &report, std::string_view text) {
    return report.text.find(text) != std::string::npos;
}

}  // namespace

XidClass class_of(const XidReport &report) {
    constexpr std::uint32_t first_nvlink5 = 144;
    constexpr std::uint32_t last_nvlink5 = 150;
    constexpr std::uint32_t recovery_action_changed = 154;
    // "RLW_RXPIPE Nonfatal XC0 i0 Link 11 (...)"
    if (report.code >= first_nvlink5 && report.code <= last_nvlink5 && has(report, " Nonfatal ")) {
        return information;
    }
    // "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    if (report.code == recovery_action_changed && has(report, " to 0x0 (None)")) {
        return information;
    }
    const auto *const found = std::ranges::find_if(table, [&](const Range &range) {
        return range.first <= report.code && report.code <= range.last;
    });
    return found == std::end(table) ? XidClass::unknown : found->of;
}

std::string_view severity_of(const XidReport &report) {
    if (report.text.starts_with("Non-fatal, ")) {
        return "nonfatal";
    }
    return report.text.starts_with("Fatal, ") ? "fatal" : "unknown";
}

}  // namespace gpusnoop::probes

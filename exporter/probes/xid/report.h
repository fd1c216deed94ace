// What the NVIDIA driver says of an error, as text. The text is untrusted: a process chooses its
// name, and a privileged one can write anything into the kernel's log.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnoop::probes {

// Of a report's text, in lists and lines.
inline constexpr std::size_t max_report_bytes = 384;

// One report. All text is valid UTF-8, without control characters, and not long.
struct XidReport {
    bool is_switch = false;  // an SXid, of an NVSwitch
    std::string device;      // its PCI address, as in /sys: "0000:3b:00.0"; empty: not known
    std::uint32_t code = 0;
    std::string text;  // what comes after the code
    // The process that the text names, as the host counts.
    std::optional<std::uint32_t> pid;
    std::string process_name;
    // Of a GPU that is divided (MIG).
    std::optional<std::uint32_t> gpu_instance;
    std::optional<std::uint32_t> compute_instance;

    friend bool operator==(const XidReport &, const XidReport &) = default;
};

// Reads a line of the kernel's log: "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
// or "nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Non-fatal, Link 32 ...". Empty: another
// line.
[[nodiscard]] std::optional<XidReport> read_report(std::string_view line);

// A report whose device and code the driver gives by themselves. `text` is what follows the code in
// a line.
[[nodiscard]] XidReport make_report(bool is_switch, std::string device, std::uint32_t code,
                                    std::string_view text);

// Is it the second or a later line of an SXid? Those give registers.
[[nodiscard]] bool continues_report(const XidReport &report);

// What an Xid is about, by the table that NVIDIA publishes: docs/xid.md has its address, and how
// its actions become these classes.
enum class XidClass : std::uint8_t {
    hardware,     // somebody must act on the GPU or the node
    application,  // the program must be started again, and may be at fault
    information,  // nobody must act: it follows from another, or was repaired
    unknown,      // the table says nothing of it
};

inline constexpr std::array<std::string_view, 4> xid_class_names = {"hardware", "application",
                                                                    "information", "unknown"};

[[nodiscard]] constexpr std::string_view to_string(XidClass one) {
    return xid_class_names.at(static_cast<std::size_t>(one));
}

// Of a GPU's report. Some codes are of one class or another by the text.
[[nodiscard]] XidClass class_of(const XidReport &report);

// "fatal", "nonfatal", or "unknown", as the text of a switch's report says.
[[nodiscard]] std::string_view severity_of(const XidReport &report);

}  // namespace gpusnoop::probes

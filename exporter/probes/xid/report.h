// What the NVIDIA driver says of an error, as text. The text is untrusted: a process chooses its
// name, and a privileged one can write anything into the kernel's log.
#pragma once

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

}  // namespace gpusnoop::probes

// What an Xid is about, by the table that NVIDIA publishes: docs/xid.md has its address, and how
// its actions become these classes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "exporter/probes/xid/report.h"

namespace gpusnoop::probes {

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

#include "exporter/probes/xid/classes.h"

#include <algorithm>

namespace gpusnoop::probes {

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

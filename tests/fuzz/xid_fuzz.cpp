// libFuzzer target: any bytes as a record of /dev/kmsg, as a line of the kernel's log, and as the
// text of the driver's tracepoint. What comes of them must be valid UTF-8, without control
// characters, and bounded.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/probes/xid/aggregator.h"
#include "exporter/probes/xid/report.h"
#include "exporter/system/kernel_log.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

void check(const XidReport &report) {
    for (const std::string *const text : {&report.text, &report.process_name, &report.device}) {
        if (text->size() > max_report_bytes || to_valid_utf8(*text, text->size()) != *text) {
            std::abort();
        }
    }
    (void)class_of(report);
    (void)severity_of(report);
}

}  // namespace

// Each report is a line of the log.
extern "C" int LLVMFuzzerInitialize(int * /*argc*/, char *** /*argv*/) {
    log::set_level(log::Level::error);
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string bytes(data, data + size);
    (void)parse_kernel_log(bytes);
    check(make_report(false, "0000:3b:00.0", 31, bytes));
    for (const std::string &line :
         {bytes, "NVRM: Xid (" + bytes, "NVRM: Xid (PCI:0000:3b:00): 31, " + bytes,
          "nvidia-nvswitch0: SXid (" + bytes}) {
        if (const auto report = read_report(line)) {
            check(*report);
        }
    }
    XidAggregator aggregator({.budget = [](std::string_view) { return 20U; },
                              .retention = std::chrono::minutes(1),
                              .look_up = [](ProcessIdentity &) { return false; }});
    (void)aggregator.on_line(bytes, false, std::chrono::nanoseconds(1));
    (void)xids_page(aggregator.history().list()).write({});
    return 0;
}

#include "exporter/trace/kernel_events.h"

#include <spdlog/fmt/fmt.h>

#include <cstring>
#include <utility>

#include "exporter/probes/fence/names.h"
#include "exporter/probes/nvlink/probe.h"
#include "exporter/probes/pcie/devices.h"
#include "exporter/probes/syscall/aggregator.h"
#include "exporter/symbols/names/syscall_names.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

namespace {

// The highest number that the kernel returns for an error, negated: MAX_ERRNO.
constexpr std::int64_t max_errno = 4095;

std::string shown(std::string_view text) {
    return printable(text, max_text_bytes);
}

template <std::size_t size>
std::string shown(const char (&bytes)[size]) {
    return shown(std::string_view(bytes, ::strnlen(bytes, size)));
}

template <std::size_t size>
std::string shown_or_unknown(const char (&bytes)[size]) {
    return bytes[0] == '\0' ? "unknown" : shown(bytes);
}

void set_process(Event &event, const probes::ProcessIdentity &process) {
    event.ppid = process.ppid;
    event.comm = shown(process.comm);
    event.container = shown(process.container);
}

// On whose behalf the kernel worked; process 0 is none.
void set_caller(Event &event, std::uint32_t tgid, std::uint32_t tid,
                const process_identity &identity) {
    event.pid = tgid;
    event.tid = tid;
    if (tgid == 0) {
        event.comm = "interrupt";
        return;
    }
    probes::ProcessIdentity process;
    probes::take(process, identity);
    set_process(event, process);
}

std::int64_t began(std::uint64_t ended_ns, std::uint64_t duration_ns,
                   std::int64_t clock_offset_ns) {
    return static_cast<std::int64_t>(ended_ns - duration_ns) + clock_offset_ns;
}

// include/linux/pci.h.
std::string pci_error(std::int32_t result) {
    switch (result) {
        case 0x81:
            return "PCIBIOS_FUNC_NOT_SUPPORTED";
        case 0x83:
            return "PCIBIOS_BAD_VENDOR_ID";
        case 0x86:
            return "PCIBIOS_DEVICE_NOT_FOUND";
        case 0x87:
            return "PCIBIOS_BAD_REGISTER_NUMBER";
        case 0x88:
            return "PCIBIOS_SET_FAILED";
        case 0x89:
            return "PCIBIOS_BUFFER_TOO_SMALL";
        default:
            return result < 0 ? std::string(errno_name(0U - static_cast<std::uint32_t>(result)))
                              : std::to_string(result);
    }
}

Value text_or_nothing(std::string text) {
    return text.empty() ? Value() : Value(std::move(text));
}

void set_result(Event &event, std::int64_t result, std::string error) {
    // Of what is no small number, most is an address.
    constexpr std::int64_t large = std::int64_t{1} << 32;
    event.result = !error.empty()    ? error
                   : result >= large ? fmt::format("{:#x}", result)
                                     : std::to_string(result);
    event.results = {{"result", result}, {"error", text_or_nothing(std::move(error))}};
}

}  // namespace

Event event_of(const pcie_record &record, std::string register_name, std::int64_t clock_offset_ns) {
    Event event;
    event.time_ns = began(record.ended_ns, record.duration_ns, clock_offset_ns);
    event.duration_ns = record.duration_ns;
    set_caller(event, record.tgid, record.tid, record.identity);
    event.kind = "op";
    event.name = (record.access & PCIE_WRITES) != 0 ? "write" : "read";
    set_result(event, record.result, record.result == 0 ? "" : pci_error(record.result));
    event.details = {
        {"device", probes::pci_address(record.device)},
        {"offset", Word{record.offset}},
        {"register", text_or_nothing(std::move(register_name))},
        {"size", std::uint64_t{PCIE_SIZE(record.access)}},
        {"value", Word{record.value}},
        {"origin", std::string((record.access & PCIE_USER) != 0 ? "user" : "driver")},
    };
    return event;
}

Event event_of(const nvlink_record &record, std::int64_t clock_offset_ns) {
    Event event;
    event.time_ns = began(record.ended_ns, record.duration_ns, clock_offset_ns);
    event.duration_ns = record.duration_ns;
    set_caller(event, record.tgid, record.tid, record.identity);
    event.kind = "function";
    event.name = probes::nvlink_function(record.op);
    event.details = {{"bytes", std::uint64_t{record.bytes}}};
    return event;
}

Event event_of(const fence_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    Event event;
    event.time_ns = static_cast<std::int64_t>(record.head.at_ns) + clock_offset_ns;
    if (record.has_duration != 0) {
        event.duration_ns = record.nanoseconds;
    }
    event.pid = record.head.tgid;
    event.tid = record.tid;
    set_process(event, process);
    event.kind = "event";
    event.name = probes::fence_event_names.at(record.head.type - FENCE_RECORD);
    event.details = {{"driver", shown_or_unknown(record.names.driver)},
                     {"timeline", shown_or_unknown(record.names.timeline)},
                     {"context", std::uint64_t{record.fence.context}},
                     {"seqno", std::uint64_t{record.fence.seqno}}};
    return event;
}

Event event_of(const syscall_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    Event event;
    event.time_ns = began(record.head.at_ns, record.nanoseconds, clock_offset_ns);
    event.duration_ns = record.nanoseconds;
    event.pid = record.head.tgid;
    event.tid = record.tid;
    set_process(event, process);
    event.kind = "syscall";
    event.name = probes::syscall_label(record.number);
    if (record.number == SYSCALL_COMPAT || record.number == SYSCALL_UNKNOWN) {
        event.details.emplace_back("number", std::int64_t{record.made_with});
    }
    // It puts the registers back that a signal's handler interrupted: none is its own.
    if (record.number == syscall_number("rt_sigreturn")) {
        event.results = {{"result", Value()}, {"error", Value()}};
        return event;
    }
    const bool failed = record.result < 0 && record.result >= -max_errno;
    set_result(event, record.result,
               failed ? std::string(errno_name(static_cast<std::uint32_t>(-record.result))) : "");
    std::vector<Word> arguments;
    for (const std::uint64_t argument : record.arguments) {
        arguments.push_back({argument});
    }
    event.details.emplace_back("arguments", std::move(arguments));
    return event;
}

}  // namespace gpusnoop::trace

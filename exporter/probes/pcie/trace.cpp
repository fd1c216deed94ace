#include "exporter/probes/pcie/trace.h"

#include <map>
#include <utility>

#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/probes/pcie/devices.h"
#include "exporter/probes/pcie/pci_registers.h"
#include "exporter/probes/pcie/probe.h"
#include "exporter/probes/pcie/settings.h"
#include "exporter/symbols/names/syscall_names.h"

namespace gpusnoop::trace {

namespace {

class PcieTracer final : public EventTracer {
public:
    explicit PcieTracer(const Setup &setup) : EventTracer(setup) {}

private:
    Result<std::unique_ptr<probes::Probe>> make_probe() override {
        const config::Config &config = setup().config;
        // Read before the trace starts, so that these reads are not traced.
        for (const std::uint64_t device :
             probes::find_pci_devices(config.of<probes::PcieConfig>().classes)) {
            registers_.emplace(device, registers_of(device));
        }
        return probes::make_pcie_tracer(config, [this](const auto &record, const auto &process) {
            std::string name = registers_[record.device].name(record.offset);
            write(event_of(record, process, std::move(name), clock_offset_ns()));
        });
    }

    std::map<std::uint64_t, PciRegisters> registers_;  // by device
};

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

}  // namespace

Event event_of(const pcie_record &record, const probes::ProcessIdentity &process,
               std::string register_name, std::int64_t clock_offset_ns) {
    Event event;
    event.time_ns = began_ns(record.ended_ns, record.duration_ns, clock_offset_ns);
    event.duration_ns = record.duration_ns;
    set_caller(event, record.tgid, record.tid, process);
    event.kind = "op";
    event.name = (record.access & PCIE_WRITES) != 0 ? "write" : "read";
    set_result(event, record.result, record.result == 0 ? "" : pci_error(record.result));
    event.details = {
        {"device", probes::pci_address(record.device)},
        {"offset", Word{record.offset}},
        {"register", text_or_null(std::move(register_name))},
        {"size", std::uint64_t{PCIE_SIZE(record.access)}},
        {"value", Word{record.value}},
        {"origin", std::string((record.access & PCIE_USER) != 0 ? "user" : "driver")},
    };
    return event;
}

constinit const Kind pcie_trace = {.help = "Accesses to the configuration space of GPUs.",
                                   .column = "ACCESS",
                                   .make = make<PcieTracer>};

}  // namespace gpusnoop::trace

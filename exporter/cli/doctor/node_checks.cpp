#include <fcntl.h>
#include <linux/capability.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "exporter/base/file_id.h"
#include "exporter/base/glob.h"
#include "exporter/base/read_file.h"
#include "exporter/cli/doctor/checks.h"
#include "exporter/ebpf/attach/mapper_locks.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/ebpf/mappings/mmap_events.h"
#include "exporter/ebpf/maps/pins.h"
#include "exporter/http/listener.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/functions/select/unnamed.h"
#include "exporter/probes/functions/settings.h"
#include "exporter/processes/mapping_reader.h"
#include "exporter/processes/open_mapped.h"
#include "exporter/system/capabilities.h"

namespace gpusnoop::doctor {

namespace {

bool is_wanted(const config::Config &config, const std::string &name) {
    return matches_any(config.of<probes::CudaConfig>().libraries, name);
}

std::string with_hint(const Error &error, std::initializer_list<Capability> wanted) {
    return error.message + missing_for(error.code, {wanted.begin(), wanted.size()});
}

std::vector<FoundLibrary> find_libraries(const std::vector<ebpf::Mapping> &mappings,
                                         ebpf::MappingList &list, const config::Config &config) {
    processes::MappingReader paths(list);
    std::map<FileId, FoundLibrary> found;
    for (const ebpf::Mapping &mapping : mappings) {
        if (!is_wanted(config, mapping.name)) {
            continue;
        }
        FoundLibrary &library = found[mapping.file];
        library.users.insert(mapping.tgid);
        if (!library.name.empty() && library.problem.empty()) {
            continue;
        }
        library.name = mapping.name;
        auto path = paths.path_of(mapping);
        library.path = path.value_or(library.path);
        const auto file = processes::open_mapped(mapping, std::move(path), list);
        library.problem = file ? ""
                               : with_hint(file.error(), {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH,
                                                          CAP_CHECKPOINT_RESTORE});
        if (const auto free = ebpf::check_mapper_locks(mapping.file); file && !free) {
            library.locked = free.error().message;
        }
        if (file) {
            library.cost = probes::entry_cost(file->readable()).value_or(probes::EntryCost{});
        }
    }
    std::vector<FoundLibrary> libraries;
    for (auto &[id, library] : found) {
        libraries.push_back(std::move(library));
    }
    return libraries;
}

std::vector<Finding> examine_processes(const config::Config &config) {
    const std::string costs = "no library is found, so nothing is traced";
    auto list = ebpf::MappingList::open();
    if (!list) {
        return {
            {"processes", Verdict::fail, with_hint(list.error(), {CAP_BPF, CAP_PERFMON}), costs}};
    }
    const auto mappings = processes::MappingReader(**list).read_all();
    const Fd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const auto own = (*list)->identify(self.get());
    if (!mappings || !own) {
        return {{"processes", Verdict::fail, (mappings ? own.error() : mappings.error()).message,
                 costs, "a container needs the host's process ids: --pid=host, hostPID: true"}};
    }
    std::set<std::uint32_t> processes;
    for (const ebpf::Mapping &mapping : *mappings) {
        processes.insert(mapping.tgid);
    }
    std::vector<Finding> findings = {
        {"processes", Verdict::ok, std::to_string(processes.size()) + " can be inspected", ""}};
    for (Finding &finding : judge_libraries(find_libraries(*mappings, **list, config))) {
        findings.push_back(std::move(finding));
    }
    for (Finding &finding : examine_unnamed(*mappings, **list, config)) {
        findings.push_back(std::move(finding));
    }
    return findings;
}

Finding examine_events() {
    const auto events = ebpf::MmapEvents::open();
    return {
        "mapping_events", events ? Verdict::ok : Verdict::warn,
        events ? "work" : "do not work (" + with_hint(events.error(), {CAP_BPF, CAP_PERFMON}) + ")",
        events ? ""
               : "new processes are found by the rescan only, and their first calls are missed"};
}

std::vector<Finding> examine_addresses(const config::Config &config) {
    if (config.web.systemd_socket) {
        return {{"listen", Verdict::ok, "sockets come from systemd", ""}};
    }
    std::vector<Finding> findings;
    for (const std::string &address : config.web.listen_addresses) {
        const auto listener = http::Listener::open(address);
        findings.push_back(
            {"listen", listener ? Verdict::ok : Verdict::fail,
             listener ? address + " is free" : with_hint(listener.error(), {CAP_NET_BIND_SERVICE}),
             listener ? "" : "the exporter does not start",
             listener ? ""
                      : "ss -ltnp shows who listens there; --web.listen-address chooses another"});
    }
    return findings;
}

// What comes of a place that cannot hold pins.
Finding no_pins(probes::Pin wanted, std::string what, std::string_view remedy) {
    if (wanted == probes::Pin::always) {
        return {"pins", Verdict::fail, std::move(what), "the probe cuda is down",
                std::string(remedy) + ", or cuda.pin: auto"};
    }
    return {"pins", Verdict::ok, std::move(what),
            "after a restart, what running programs hold is a lower bound (" + std::string(remedy) +
                ")"};
}

std::vector<Finding> examine_pins(const config::Config &config) {
    const auto &cuda = config.of<probes::CudaConfig>();
    const std::string &path = cuda.pin_path;
    if (cuda.pin == probes::Pin::never) {
        if (ebpf::has_pins(path)) {
            return {
                {"pins", Verdict::warn, path + " has pins of an earlier exporter",
                 "its probes are still attached, and cost programs as much as a running exporter",
                 "gpusnoop_exporter unpin"}};
        }
        return {};
    }
    const std::string parent = path.substr(0, path.rfind('/'));
    constexpr long bpf_fs_magic = 0xcafe4a11;  // include/uapi/linux/magic.h
    struct statfs file_system{};
    const bool exists = ::access(path.c_str(), F_OK) == 0;
    const std::string &place = exists ? path : parent;
    if (::statfs(place.c_str(), &file_system) != 0 || file_system.f_type != bpf_fs_magic) {
        return {no_pins(cuda.pin, place + " is in no BPF file system that this process sees",
                        "mount -t bpf bpf /sys/fs/bpf")};
    }
    if (::faccessat(AT_FDCWD, place.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
        return {no_pins(cuda.pin, place + " cannot be written to by this user",
                        "make this user its owner")};
    }
    return {{"pins", Verdict::ok, place + " can be used", ""}};
}

}  // namespace

std::vector<Finding> judge_libraries(const std::vector<FoundLibrary> &libraries) {
    if (libraries.empty()) {
        return {{"cuda_libraries", Verdict::ok,
                 "no process uses CUDA now: the exporter waits for one", ""}};
    }
    std::vector<Finding> findings;
    for (const FoundLibrary &library : libraries) {
        const std::string users = library.users.size() == 1
                                      ? "one process"
                                      : std::to_string(library.users.size()) + " processes";
        const bool can_be_opened = library.problem.empty();
        const auto &[functions, expensive] = library.cost;
        const std::string cost =
            expensive == 0
                ? ""
                : ": " + std::to_string(expensive) + " of its " + std::to_string(functions) +
                      " traced functions begin with an instruction that the kernel "
                      "cannot emulate, so a traced call of them costs about ten times "
                      "as much";
        findings.push_back(
            {"cuda_libraries", can_be_opened ? Verdict::ok : Verdict::warn,
             (library.path.empty() ? library.name : library.path) + " in " + users +
                 (can_be_opened ? cost : " cannot be opened (" + library.problem + ")"),
             can_be_opened ? "" : "the calls of these processes are not seen"});
        if (!library.locked.empty()) {
            findings.push_back(
                {"cuda_libraries", Verdict::warn,
                 (library.path.empty() ? library.name : library.path) + ": " + library.locked,
                 "the exporter attaches to the library when the process has unlocked them or ended",
                 "find what it waits for (/proc/PID/stack), and end that or the process"});
        }
    }
    return findings;
}

Finding judge_gpus(const std::vector<discovery::Gpu> &gpus, const std::string &where) {
    if (gpus.empty()) {
        return {"gpus", Verdict::warn, "the NVIDIA driver lists none in " + where,
                "the label gpu is \"unknown\"",
                "in a container, mount the host's and set discovery.nvidia_proc_path"};
    }
    std::string names;
    for (const discovery::Gpu &gpu : gpus) {
        names += (names.empty() ? "" : ", ") + std::to_string(gpu.index) + " " +
                 (gpu.name.empty() ? "of an unknown model" : gpu.name);
    }
    return {"gpus", Verdict::ok, names, ""};
}

std::vector<Finding> examine_node(const config::Config &config) {
    std::vector<Finding> findings = examine_processes(config);
    findings.push_back(examine_events());
    const std::string &where = config.discovery.nvidia_proc_path;
    const auto version = read_start(where + "/version", 256);
    findings.push_back(
        {"nvidia_driver", version ? Verdict::ok : Verdict::warn,
         version ? version->substr(0, version->find('\n')) : "not loaded: no " + where + "/version",
         version ? "" : "no program on this node can use an NVIDIA GPU",
         version ? "" : "modprobe nvidia, if this node has a GPU"});
    findings.push_back(judge_gpus(discovery::read_gpus(where), where));
    for (Finding &finding : examine_pins(config)) {
        findings.push_back(std::move(finding));
    }
    for (Finding &finding : examine_addresses(config)) {
        findings.push_back(std::move(finding));
    }
    return findings;
}

namespace {

// Any user can map any number of files, and keep readers of them waiting.
constexpr std::size_t max_files = 10'000;
constexpr std::chrono::seconds max_time{10};

std::set<std::uint32_t> processes_with_cuda(const std::vector<ebpf::Mapping> &mappings,
                                            const config::Config &config) {
    std::set<std::uint32_t> processes;
    for (const ebpf::Mapping &mapping : mappings) {
        if (matches_any(config.of<probes::CudaConfig>().libraries, mapping.name)) {
            processes.insert(mapping.tgid);
        }
    }
    return processes;
}

}  // namespace

std::vector<Finding> examine_unnamed(const std::vector<ebpf::Mapping> &mappings,
                                     ebpf::MappingList &list, const config::Config &config) {
    std::vector<Finding> findings;
    const auto &functions = config.of<probes::FunctionsConfig>();
    if (!functions.enabled) {
        return findings;
    }
    const auto until = std::chrono::steady_clock::now() + max_time;
    const std::set<std::uint32_t> processes = processes_with_cuda(mappings, config);
    processes::MappingReader paths(list);
    std::set<FileId> examined;
    for (const ebpf::Mapping &mapping : mappings) {
        if (!processes.contains(mapping.tgid) || !examined.insert(mapping.file).second) {
            continue;
        }
        if (examined.size() > max_files || std::chrono::steady_clock::now() >= until) {
            findings.push_back({"unnamed_libraries", Verdict::ok,
                                "CUDA processes map too many files to examine all of them", ""});
            return findings;
        }
        auto mapped = paths.path_of(mapping);
        const std::string path = mapped.value_or(mapping.name);
        const auto file = processes::open_mapped(mapping, std::move(mapped), list);
        if (!file) {
            continue;  // its process may have ended
        }
        const auto exports =
            probes::unnamed_exports(file->readable(), mapping.name, path, functions.groups);
        if (!exports) {
            continue;  // no program can load it, either, or it is far larger than any library
        }
        for (const probes::UnnamedExports &one : *exports) {
            if (one.is_counted) {
                continue;
            }
            findings.push_back({"unnamed_libraries", Verdict::warn,
                                path + " exports " + one.function + " of the group " + one.group +
                                    ", whose libraries have other names",
                                "calls of the group's functions in it are not counted",
                                "add its name to functions.groups." + one.group + ".libraries"});
        }
    }
    return findings;
}

}  // namespace gpusnoop::doctor

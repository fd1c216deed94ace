#include "exporter/config/config.h"

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string_view>
#include <utility>

#include "exporter/base/text.h"
#include "exporter/config/document.h"
#include "exporter/config/driver_probes.h"
#include "exporter/config/reader.h"
#include "exporter/config/system.h"
#include "exporter/config/units.h"
#include "exporter/system/listen_address.h"

namespace gpusnoop::config {

namespace {

using namespace std::chrono_literals;

bool is_telemetry_path(std::string_view path) {
    constexpr std::string_view allowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/";
    return path.size() > 1 && path.front() == '/' && path.size() <= 255 &&
           path.find_first_not_of(allowed) == std::string_view::npos &&
           path.find("//") == std::string_view::npos && path.find("/.") == std::string_view::npos &&
           !path.starts_with("/-/") && !path.starts_with("/api/");
}

constexpr std::size_t max_listen_addresses = 16;

// One address, or a list of them.
void read_listen_addresses(const Value &value, std::vector<std::string> &addresses) {
    const bool is_list = value.node().IsSequence();
    const auto items = is_list
                           ? value.list("a list of addresses", "addresses", 1, max_listen_addresses)
                           : std::optional(std::vector<Value>{value});
    if (!items) {
        return;
    }
    std::vector<std::string> read;
    for (const Value &item : *items) {
        const auto text = item.text("a text");
        const auto address = text ? parse_listen_address(*text) : Result<ListenAddress>();
        if (text && !address) {
            item.reject(address.error().message);
        }
        read.push_back(text.value_or(""));
    }
    if (const auto repeated = find_repeated_address(read)) {
        items->at(*repeated).reject(quoted(read[*repeated]) + " is in the list twice");
    }
    addresses = std::move(read);
}

void read_web(Section web, Config::Web &value) {
    if (const Value *addresses = web.find("listen_address")) {
        read_listen_addresses(*addresses, value.listen_addresses);
    }
    web.text("telemetry_path", value.telemetry_path);
    if (!is_telemetry_path(value.telemetry_path)) {
        web.reject("telemetry_path",
                   quoted(value.telemetry_path) +
                       " is not a path such as /metrics that this server can use");
    }
    web.finish();
}

void read_log(Section log, Config::Log &value) {
    log.choice<log::Level>("level", value.level,
                           {{"debug", log::Level::debug},
                            {"info", log::Level::info},
                            {"warn", log::Level::warn},
                            {"error", log::Level::error}});
    log.choice<log::Format>("format", value.format,
                            {{"logfmt", log::Format::logfmt}, {"json", log::Format::json}});
    log.finish();
}

void read_capabilities(Section capabilities, Config::Capabilities &value) {
    using Keep = Config::Capabilities::Keep;
    capabilities.choice<Keep>("keep", value.keep, {{"needed", Keep::needed}, {"all", Keep::all}});
    capabilities.finish();
}

void read_labels(Section labels, Config::Labels &value) {
    labels.boolean("pid", value.pid);
    labels.finish();
}

void read_series(Section series, Config::Series &value, std::span<const std::string> metrics) {
    constexpr std::uint32_t min_value = 10;
    constexpr std::uint32_t max_value = 1'000'000;
    series.integer("budget", value.budget, min_value, max_value);
    series.budgets("budgets", value.budgets, min_value, max_value, metrics);
    series.duration("retention", value.retention, 10s, 24h);
    series.finish();
}

void read_exclude(Section &discovery, std::vector<std::string> &value) {
    const Value *entry = discovery.find("exclude");
    const auto items = entry == nullptr
                           ? std::nullopt
                           : entry->list("a list of paths and build ids", "entries", 0, 256);
    if (!items) {
        return;
    }
    constexpr std::string_view build_id = "build_id:";
    std::vector<std::string> exclude;
    for (const Value &item : *items) {
        const std::string text = item.text("a path or a build id").value_or("/");
        const bool is_build =
            text.starts_with(build_id) && text.size() > build_id.size() &&
            text.find_first_not_of("0123456789abcdef", build_id.size()) == std::string::npos;
        if (!is_build && !text.starts_with('/') && !text.starts_with('*')) {
            item.reject(
                "must be a glob of paths that begins with / or *, or build_id: and digits "
                "in lower-case hexadecimal, is " +
                quoted(text));
        }
        exclude.push_back(text);
    }
    value = std::move(exclude);
}

void read_discovery(Section discovery, Config::Discovery &value) {
    discovery.duration("rescan_interval", value.rescan_interval, 1s, 1h);
    read_exclude(discovery, value.exclude);
    discovery.text("nvidia_proc_path", value.nvidia_proc_path);
    if (!value.nvidia_proc_path.starts_with('/')) {
        discovery.reject("nvidia_proc_path", quoted(value.nvidia_proc_path) +
                                                 " does not begin with /: an absolute path is "
                                                 "needed");
    }
    discovery.finish();
}

constexpr std::uint32_t min_ring = 4U << 10U;
constexpr std::uint32_t max_ring = 256U << 20U;

void read_attach(Section &probe, Config::Cuda::Attach &value) {
    using Attach = Config::Cuda::Attach;
    probe.choice<Attach>("attach", value,
                         {{"auto", Attach::automatic},
                          {"session", Attach::session},
                          {"multi", Attach::multi},
                          {"perf", Attach::perf}});
}

void read_cuda(Section cuda, Config::Cuda &value) {
    cuda.boolean("enabled", value.enabled);
    cuda.file_name_globs("libraries", value.libraries);
    read_attach(cuda, value.attach);
    cuda.choice("endings", value.endings, ending_names);
    cuda.integer("max_calls_per_second", value.max_calls_per_second, 0, 1'000'000'000);
    cuda.size("allocation_ring_bytes", value.allocation_ring_bytes, min_ring, max_ring);
    cuda.size("call_ring_bytes", value.call_ring_bytes, min_ring, max_ring);
    cuda.duration("drain_interval", value.drain_interval, 1ms, 1s);
    cuda.integer("max_live_allocations", value.max_live_allocations, 1'024, 64U << 20U);
    cuda.integer("max_registered_kernels", value.max_registered_kernels, 1, 16U << 20U);
    cuda.boolean("pin", value.pin);
    cuda.text("pin_path", value.pin_path);
    if (!value.pin_path.starts_with('/')) {
        cuda.reject("pin_path",
                    quoted(value.pin_path) + " does not begin with /: an absolute path is needed");
    }
    cuda.boolean("call_stacks", value.call_stacks);
    cuda.integer("max_call_stacks", value.max_call_stacks, 16, 1U << 20U);
    cuda.integer("call_sites", value.call_sites, 0, 1'000);
    cuda.finish();
}

void read_report(Section report, Config::FunctionReport &value) {
    report.duration("interval", value.interval, 0ms, 24h);
    if (value.interval > 0ms && value.interval < 1s) {
        report.reject("interval",
                      "must be 0s, which is none, or 1s to 24h, is " + to_text(value.interval));
    }
    report.integer("rows", value.rows, 1, 1'000);
    report.finish();
}

void read_functions(Section functions, Config::Functions &value) {
    functions.boolean("enabled", value.enabled);
    read_attach(functions, value.attach);
    functions.integer("max_calls_per_second", value.max_calls_per_second, 0, 1'000'000'000);
    functions.size("ring_bytes", value.ring_bytes, min_ring, max_ring);
    functions.duration("drain_interval", value.drain_interval, 1ms, 1s);
    functions.integer("max_functions", value.max_functions, 1, 65'536);
    read_report(functions.section("report"), value.report);
    if (const Value *groups = functions.find("groups")) {
        read_function_groups(*groups, value.groups);
    }
    Section slow_calls = functions.section("slow_calls");
    slow_calls.integer("keep", value.slow_calls.keep, 0, 1'000);
    slow_calls.integer("log_per_second", value.slow_calls.log_per_second, 0, 10'000);
    slow_calls.size("ring_bytes", value.slow_calls.ring_bytes, min_ring, max_ring);
    slow_calls.finish();
    functions.finish();
}

Config read_root(const YAML::Node &root, Problems &problems, std::span<const std::string> metrics) {
    Config config;
    Section file(Value(root, "", position_of(root), problems));
    read_web(file.section("web"), config.web);
    read_log(file.section("log"), config.log);
    read_capabilities(file.section("capabilities"), config.capabilities);
    read_labels(file.section("labels"), config.labels);
    read_series(file.section("series"), config.series, metrics);
    read_discovery(file.section("discovery"), config.discovery);
    read_cuda(file.section("cuda"), config.cuda);
    read_functions(file.section("functions"), config.functions);
    read_pcie(file.section("pcie"), config.pcie);
    read_nvlink(file.section("nvlink"), config.nvlink);
    if (const Value *sinks = file.find("sinks")) {
        config.sinks = read_sinks(*sinks);
    }
    read_targets(file.section("targets"), config.targets);
    read_syscall(file.section("syscall"), config.syscall);
    read_fence(file.section("fence"), config.fence);
    file.finish();
    return config;
}

}  // namespace

Result<Config> parse(std::string_view text, const std::string &name,
                     std::span<const std::string> metrics) {
    Config config;
    const auto read = read_document(text, name, [&](const YAML::Node &root, Problems &problems) {
        config = read_root(root, problems, metrics);
    });
    if (!read) {
        return tl::unexpected<Error>(read.error());
    }
    return config;
}

Result<Config> load(const std::string &path, std::span<const std::string> metrics) {
    const Result<std::string> text = read_config_file(path);
    if (!text) {
        return tl::unexpected<Error>(text.error());
    }
    return parse(*text, path, metrics);
}

}  // namespace gpusnoop::config

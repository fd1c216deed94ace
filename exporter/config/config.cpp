#include "exporter/config/config.h"

#include <yaml-cpp/yaml.h>

#include <optional>

#include "exporter/base/text/text.h"
#include "exporter/config/document.h"
#include "exporter/config/globs.h"
#include "exporter/config/reader.h"
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
        items->at(*repeated).reject(in_quotes(read[*repeated]) + " is in the list twice");
    }
    addresses = std::move(read);
}

void read_web(Section web, Config::Web &value) {
    if (const Value *addresses = web.find("listen_address")) {
        read_listen_addresses(*addresses, value.listen_addresses);
    }
    web.note("listen_address", value.listen_addresses);
    web.text("telemetry_path", value.telemetry_path);
    if (!is_telemetry_path(value.telemetry_path)) {
        web.reject("telemetry_path",
                   in_quotes(value.telemetry_path) +
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
    log.set_live("level");
    log.finish();
}

void read_capabilities(Section capabilities, Config::Capabilities &value) {
    using Keep = Config::Capabilities::Keep;
    capabilities.choice<Keep>("keep", value.keep, {{"needed", Keep::needed}, {"all", Keep::all}});
    capabilities.finish();
}

void read_labels(Section labels, Config::Labels &value) {
    labels.boolean("pid", value.pid);
    labels.boolean("script", value.script);
    labels.boolean("stream", value.stream);
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
                in_quotes(text));
        }
        exclude.push_back(text);
    }
    value = std::move(exclude);
}

void read_preattach(Section &discovery, std::vector<std::string> &value) {
    const Value *entry = discovery.find("preattach");
    const auto items =
        entry == nullptr ? std::nullopt : entry->list("a list of paths", "paths", 0, 64);
    if (!items) {
        return;
    }
    std::vector<std::string> preattach;
    for (const Value &item : *items) {
        const std::string text = item.text("a path").value_or("/");
        if (!text.starts_with('/')) {
            item.reject("must be a path that begins with /, or a glob of such paths, is " +
                        in_quotes(text));
        } else if (const std::string problem = glob_problem(text); !problem.empty()) {
            item.reject(problem);
        }
        preattach.push_back(text);
    }
    value = std::move(preattach);
}

void read_discovery(Section discovery, Config::Discovery &value) {
    discovery.duration("rescan_interval", value.rescan_interval, 1s, 1h);
    discovery.duration("keep", value.keep, 0s, 24h);
    read_preattach(discovery, value.preattach);
    discovery.note("preattach", value.preattach);
    read_exclude(discovery, value.exclude);
    discovery.note("exclude", value.exclude);
    discovery.absolute_path("nvidia_proc_path", value.nvidia_proc_path);
    discovery.finish();
}

Config read_root(const YAML::Node &root, Problems &problems, std::span<const ReadBlock> blocks,
                 std::span<const std::string> metrics) {
    Config config;
    Section file(Value(root, "", position_of(root), problems), &config.values);
    read_web(file.section("web"), config.web);
    read_log(file.section("log"), config.log);
    read_capabilities(file.section("capabilities"), config.capabilities);
    read_labels(file.section("labels"), config.labels);
    read_series(file.section("series"), config.series, metrics);
    read_discovery(file.section("discovery"), config.discovery);
    for (const ReadBlock &read : blocks) {
        read(file, config);
    }
    file.finish();
    return config;
}

}  // namespace

Result<Config> parse(std::string_view text, const std::string &name,
                     std::span<const ReadBlock> blocks, std::span<const std::string> metrics) {
    Config config;
    const auto read = read_document(text, name, [&](const YAML::Node &root, Problems &problems) {
        config = read_root(root, problems, blocks, metrics);
    });
    if (!read) {
        return tl::unexpected<Error>(read.error());
    }
    return config;
}

Result<Config> load(const std::string &path, std::span<const ReadBlock> blocks,
                    std::span<const std::string> metrics) {
    const Result<std::string> text = read_config_file(path);
    if (!text) {
        return tl::unexpected<Error>(text.error());
    }
    return parse(*text, path, blocks, metrics);
}

}  // namespace gpusnoop::config
